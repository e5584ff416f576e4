-- Purpose: note which job holds a unique key.
-- Parameters: ?1 queue, ?2 unique key, ?3 job.
-- Columns out: none.
-- Concurrency: in the transaction that has locked the key and inserted the job.
declare
  @queue varbinary(255) = ?1,
  @key varbinary(512) = ?2,
  @job bigint = ?3;
update dibs_key
set job = @job
where queue = @queue and unique_key = @key;
