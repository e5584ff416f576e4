-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 unique key.
-- Columns out: id.
-- Concurrency: the key is locked (lock_keys.sql): the answer stays true in the transaction.
select j.id
from dibs_key k
straight_join dibs_job j force index (primary) on j.id = k.job
where k.queue = ?1 and k.unique_key = ?2 and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key
