-- Purpose: read live jobs before they are changed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, gate, whether it runs, priority, run_at, attempt, group, created_at.
-- Concurrency: the only write transaction of the file.
select
  j.id,
  j.queue,
  j.gate,
  j.token is not null,
  j.priority,
  j.run_at,
  j.attempt,
  j.group_key,
  j.created_at
from json_each(?1) i
cross join dibs_job j on j.id = i.value
