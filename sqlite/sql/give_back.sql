-- Purpose: put a claimed job back to waiting.
-- Parameters: ?1 id, ?2 gate, ?3 run_at, ?4 excused, ?5 error history or null.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
update dibs_job
set
  token = null,
  lease_until = null,
  gate = ?2,
  run_at = ?3,
  excused = ?4,
  errors = ?5
where id = ?1
