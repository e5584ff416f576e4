-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 unique key.
-- Columns out: id.
-- Concurrency: the key is locked (lock_keys.sql): the answer stays true in the transaction.
declare
  @queue varbinary(255) = ?1,
  @key varbinary(512) = ?2;
select j.id
from dibs_key k
join dibs_job j on j.id = k.job
where k.queue = @queue and k.unique_key = @key
  and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key;
