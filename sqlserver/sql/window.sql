-- Purpose: find the job that holds a unique key for a period that has not passed.
-- Parameters: ?1 queue, ?2 unique key, ?3 now.
-- Columns out: job.
-- Concurrency: the key is locked (lock_keys.sql): the answer stays true in the transaction.
declare
  @queue varbinary(255) = ?1,
  @key varbinary(512) = ?2,
  @now bigint = ?3;
select job
from dibs_unique_window
where queue = @queue and unique_key = @key and until > @now;
