-- Purpose: put claimed jobs back to waiting.
-- Parameters: ?1 a JSON array of objects: id, run_at, and errors, the history as a text, unless it stays as it is;
--   ?2 gate, ?3 1 if their attempts do not count, else 0.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
declare
  @jobs nvarchar(max) = ?1,
  @gate tinyint = ?2,
  @excused int = ?3;
update j
set
  token = null,
  lease_until = null,
  gate = @gate,
  run_at = l.run_at,
  excused = j.excused + @excused,
  errors = coalesce(l.errors collate Latin1_General_100_BIN2_UTF8, j.errors)
from openjson(@jobs) with (id bigint '$.id', run_at bigint '$.run_at', errors nvarchar(max) '$.errors') l
join dibs_job j with (rowlock, updlock, forceseek) on j.id = l.id
option (force order, loop join, maxdop 1);
