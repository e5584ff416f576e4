-- Purpose: note which job holds a unique key.
-- Parameters: ?1 queue, ?2 unique key, ?3 job.
-- Columns out: none.
-- Concurrency: in the transaction that has locked the key and inserted the job.
update dibs_key
set job = ?3
where queue = ?1 and unique_key = ?2
