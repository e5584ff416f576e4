-- Purpose: end leases of rows that stay in the side table: put back, or dead.
-- Parameters: batch, a JSON array of {"k": key as text, "d": earliest next start, in microseconds since 1970, "u": 1 if the attempt does not count, "x": 1 for dead, "e": errors}.
-- Columns out: none.
-- Concurrency: the transaction has locked them.
update {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
set
    s.token = null,
    s.lease_until = null,
    s.run_at = cast(cast({{.Member "d"}} as double) as signed),
    s.excused = s.excused + {{.Member "u"}},
    s.dead = {{.Member "x"}},
    s.errors = {{.Member "e"}}
