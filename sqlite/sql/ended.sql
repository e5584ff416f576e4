-- Purpose: read a finished job before it is put back.
-- Parameters: ?1 id.
-- Columns out: queue, state, finished_at, run_at, attempt, excused, group, unique key,
--   unique until, claimed_at.
-- Concurrency: the only write transaction of the file.
select
  queue,
  state,
  finished_at,
  run_at,
  attempt,
  excused,
  group_key,
  unique_key,
  unique_until,
  claimed_at
from dibs_finished
where id = ?1
