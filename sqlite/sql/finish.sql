-- Purpose: copy a live job to the finished ones.
-- Parameters: ?1 id, ?2 state, ?3 now, ?4 error history or null, ?5 result or null.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql) and the
--   deletion after it (remove.sql).
insert into dibs_finished (
  id,
  queue,
  kind,
  state,
  finished_at,
  priority,
  run_at,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors,
  result
)
select
  id,
  queue,
  kind,
  ?2,
  ?3,
  priority,
  run_at,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  ?4,
  ?5
from dibs_job
where id = ?1
