-- Purpose: find the job that holds a unique key for a period that has not passed.
-- Parameters: ?1 queue, ?2 unique key, ?3 now.
-- Columns out: job.
-- Concurrency: the key is locked (lock_keys.sql): the answer stays true in the transaction.
select job
from dibs_unique_window
where queue = ?1 and unique_key = ?2 and until > ?3
