-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 unique key.
-- Columns out: id.
-- Concurrency: the only write transaction of the file: the answer stays true in it.
select id
from dibs_job
where queue = ?1 and unique_key = ?2 and unique_held = 1
