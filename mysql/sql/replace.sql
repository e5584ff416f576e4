-- Purpose: turn a job that waits into a new one, which was enqueued with its unique key.
-- Parameters: ?1 id; of the new one: ?2 kind, ?3 priority, ?4 run_at, ?5 gate,
--   ?6 max_attempts, ?7 group or null, ?8 metadata or null, ?9 payload.
-- Columns out: none.
-- Concurrency: the job is locked (live.sql); a claimed job is not changed.
-- All attempts are allowed again.
update dibs_job
set
  kind = ?2,
  priority = ?3,
  run_at = ?4,
  gate = ?5,
  max_attempts = ?6,
  group_key = ?7,
  metadata = ?8,
  payload = ?9,
  excused = attempt
where id = ?1 and gate <> 3
