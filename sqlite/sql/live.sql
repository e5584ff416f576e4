-- Purpose: read live jobs before they are changed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, gate, whether it runs, priority, run_at, attempt, group, created_at, whether others come
--   after it, whether it is in a flow, whether it has steps.
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
  j.created_at,
  j.followed,
  j.flow is not null,
  exists (
    select 1
    from dibs_step s
    where s.job = j.id
  )
from json_each(?1) i
cross join dibs_job j on j.id = i.value
