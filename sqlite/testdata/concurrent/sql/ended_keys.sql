-- Purpose: read the unique keys of finished jobs, to lock them before the jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: queue, unique key.
-- Concurrency: a plain read. Neither changes while a job is finished.
select queue, unique_key
from dibs_finished
where id in (select value from json_each(?1)) and unique_key is not null
