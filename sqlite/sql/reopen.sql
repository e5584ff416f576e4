-- Purpose: put a finished job back among the live ones.
-- Parameters: ?1 id, ?2 gate, ?3 run_at, ?4 excused, ?5 whether it holds its unique
--   key.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of the finished row.
insert into dibs_job (
  id,
  queue,
  kind,
  priority,
  run_at,
  gate,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  worker,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors
)
select
  id,
  queue,
  kind,
  priority,
  ?3,
  ?2,
  attempt,
  ?4,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  ?5,
  worker,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors
from dibs_finished
where id = ?1
