-- Purpose: end leases of rows that stay in the side table: put back, or dead.
-- Parameters: batch, a JSON array of {"k": key as text, "d": earliest next start, in microseconds since 1970, "u": 1 if the attempt does not count, "x": 1 for dead, "e": errors}.
-- Columns out: none.
-- Concurrency: in the write transaction that has found the leases.
-- The source depends on v only so that the planner does not compare each lease with each element of the batch.
update {{.Side}} as s
set
    token = null,
    lease_until = null,
    run_at = cast(v.value ->> 'd' as integer),
    excused = s.excused + (v.value ->> 'u'),
    dead = v.value ->> 'x',
    errors = v.value ->> 'e'
from json_each({{param "batch"}}) v
where s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k'
