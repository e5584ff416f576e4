-- Purpose: read a finished job before it is put back or deleted.
-- Parameters: ?1 id.
-- Columns out: queue, state, attempt, group, unique key, unique until, when it ended.
-- Concurrency: the only write transaction of the file.
select
  queue,
  state,
  attempt,
  group_key,
  unique_key,
  unique_until,
  finished_at
from dibs_finished
where id = ?1
