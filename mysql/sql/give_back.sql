-- Purpose: put claimed jobs back to waiting.
-- Parameters: ?1 a JSON array of objects: id, run_at, and errors, the history as a text, unless it stays as it is;
--   ?2 gate, ?3 1 if their attempts do not count, else 0.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
update json_table(?1, '$[*]' columns (
  id bigint path '$.id',
  run_at bigint path '$.run_at',
  errors longtext character set utf8mb4 path '$.errors'
)) l
straight_join dibs_job j force index (primary) on j.id = l.id
set
  j.token = null,
  j.lease_until = null,
  j.gate = ?2,
  j.run_at = l.run_at,
  j.excused = j.excused + ?3,
  j.errors = coalesce(l.errors, j.errors)
