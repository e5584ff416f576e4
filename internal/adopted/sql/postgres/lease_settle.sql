-- Purpose: end leases of rows that stay in the side table: put back, or dead.
-- Parameters: batch, a JSON array of {"k": key as text, "d": earliest next start, in microseconds since 1970, "u": 1 if the attempt does not count, "x": 1 for dead, "e": errors}.
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
