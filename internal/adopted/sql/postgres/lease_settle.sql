-- Purpose: end leases whose rows stay: put back, or dead.
-- Parameters: batch, a JSON array of {"k": key as text, "d": not before, in microseconds since 1970, "u": 1 if the attempt does not count, "x": 1 for dead, "e": errors}.
-- Columns out: none.
-- Concurrency: the transaction has locked them.
update {{.Side}} s
set
    token = null,
    lease_until = null,
    run_at = (v->>'d')::float8::bigint,
    excused = s.excused + (v->>'u')::int,
    dead = (v->>'x')::int,
    errors = v->>'e'
from jsonb_array_elements({{param "batch"}}::jsonb) v
where s.source = {{.Source}} and s.key = (v->>'k')
