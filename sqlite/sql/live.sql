-- Purpose: read a live job before it is changed.
-- Parameters: ?1 id.
-- Columns out: queue, gate, whether it runs, priority, run_at, attempt, group, errors,
--   created_at.
-- Concurrency: the only write transaction of the file.
select
  queue,
  gate,
  token is not null,
  priority,
  run_at,
  attempt,
  group_key,
  errors,
  created_at
from dibs_job
where id = ?1
