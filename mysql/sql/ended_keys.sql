-- Purpose: read the unique keys of finished jobs, to lock them before the jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: queue, unique key.
-- Concurrency: a plain read. Neither changes while a job is finished.
select f.queue, f.unique_key
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
where f.unique_key is not null
