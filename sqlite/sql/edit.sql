-- Purpose: change the priority and run_at of a job that waits.
-- Parameters: ?1 id, ?2 priority, ?3 run_at, ?4 gate.
-- Columns out: none.
-- Concurrency: the only write transaction of the file; a claimed job is not changed.
update dibs_job
set
  priority = ?2,
  run_at = ?3,
  gate = ?4
where id = ?1 and token is null
