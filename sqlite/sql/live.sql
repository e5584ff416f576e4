-- Purpose: read a live job before an operator changes it.
-- Parameters: ?1 id.
-- Columns out: queue, gate, whether it runs, priority, run_at, attempt, group, errors.
-- Concurrency: the only write transaction of the file.
select
  queue,
  gate,
  token is not null,
  priority,
  run_at,
  attempt,
  group_key,
  errors
from dibs_job
where id = ?1
