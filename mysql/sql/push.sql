-- Purpose: move the run_at of a job that waits, because a job was enqueued with its unique key.
-- Parameters: ?1 id, ?2 run_at, ?3 gate.
-- Columns out: none.
-- Concurrency: the job is locked (live.sql); a claimed job is not changed.
update dibs_job
set
  run_at = ?2,
  gate = ?3
where id = ?1 and gate <> 3
