-- Purpose: change the priority and run_at of jobs that wait.
-- Parameters: ?1 a JSON array of objects: id, priority, run_at, gate.
-- Columns out: none.
-- Concurrency: the only write transaction of the file; a claimed job is not changed.
update dibs_job
set
  priority = l.priority,
  run_at = l.run_at,
  gate = l.gate
from (
  select
    value ->> 'id' as id,
    value ->> 'priority' as priority,
    value ->> 'run_at' as run_at,
    value ->> 'gate' as gate
  from jsonb_each(?1)
) l
where dibs_job.id = l.id and token is null
