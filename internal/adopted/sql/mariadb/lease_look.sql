-- Purpose: read rows of the side table.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: key, attempts, attempts that do not count, worker, start and end of its claim, earliest next start, errors so far.
-- Concurrency: reads only.
select convert(s.key using utf8mb4), s.attempt, s.excused, s.worker, s.claimed_at, s.lease_until, s.run_at, coalesce(s.errors, '')
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
