-- Purpose: make a job that a caller's transaction claimed, and with it completed, a
--   running one again, so that another outcome can be written for it.
-- Parameters: ?1 id, ?2 queue, ?3 kind, ?4 priority, ?5 run_at, ?6 gate, ?7 attempt,
--   ?8 excused, ?9 max_attempts, ?10 group or null, ?11 unique key or null, ?12 unique
--   until or null, ?13 whether it holds its key, ?14 token, ?15 end of the lease,
--   ?16 worker, ?17 cancel_requested, ?18 created_at, ?19 claimed_at, ?20 metadata or
--   null, ?21 payload, ?22 error history or null.
-- Columns out: none.
-- Concurrency: in the caller's transaction, before whose commit nobody sees it.
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
  token,
  lease_until,
  worker,
  cancel_requested,
  created_at,
  claimed_at,
  metadata,
  payload,
  errors
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
