-- Purpose: move the run_at of a job that waits, because a job was enqueued with its unique key.
-- Parameters: ?1 id, ?2 run_at, ?3 gate.
-- Columns out: none.
-- Concurrency: the job is locked (live.sql); a claimed job is not changed.
declare
  @id bigint = ?1,
  @run_at bigint = ?2,
  @gate tinyint = ?3;
update dibs_job
set
  run_at = @run_at,
  gate = @gate
where id = @id and gate <> 3;
