-- Purpose: end leases whose rows stay: put back, or dead.
-- Parameters: batch, a JSON array of {"k": key as text, "d": not before, in microseconds since 1970, "u": 1 if the attempt does not count, "x": 1 for dead, "e": errors}.
-- Columns out: none.
-- Concurrency: in the write transaction that has found them.
-- The source depends on v for the planner: it would otherwise compare each lease with each member of the batch.
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
