-- Purpose: turn a job that waits into a new one, which was enqueued with its unique key.
-- Parameters: ?1 id; of the new one: ?2 kind, ?3 priority, ?4 run_at, ?5 gate,
--   ?6 max_attempts, ?7 group or null, ?8 metadata or null, ?9 payload.
-- Columns out: none.
-- Concurrency: the job is locked (live.sql); a claimed job is not changed.
-- All attempts are allowed again.
declare
  @id bigint = ?1,
  @kind varbinary(255) = ?2,
  @priority smallint = ?3,
  @run_at bigint = ?4,
  @gate tinyint = ?5,
  @max_attempts int = ?6,
  @group varbinary(255) = ?7,
  @metadata nvarchar(max) = ?8,
  @payload nvarchar(max) = ?9;
update dibs_job
set
  kind = @kind,
  priority = @priority,
  run_at = @run_at,
  gate = @gate,
  max_attempts = @max_attempts,
  group_key = @group,
  metadata = @metadata,
  payload = @payload,
  excused = attempt
where id = @id and gate <> 3;
