-- Purpose: put claimed jobs back to waiting.
-- Parameters: ?1 a JSON array of objects: id, run_at, and errors, the history as a text, unless it stays as it is;
--   ?2 gate, ?3 1 if their attempts do not count, else 0.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
update dibs_job
set
  token = null,
  lease_until = null,
  gate = ?2,
  run_at = l.run_at,
  excused = excused + ?3,
  errors = coalesce(l.errors, dibs_job.errors)
from (
  select
    value ->> 'id' as id,
    value ->> 'run_at' as run_at,
    value ->> 'errors' as errors
  from jsonb_each(?1)
) l
where dibs_job.id = l.id
