-- Purpose: read rows of the side table.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: key, attempts, attempts that do not count, worker, start and end of its claim, earliest next start, errors so far.
-- Concurrency: reads only.
select s.key, s.attempt, s.excused, s.worker, s.claimed_at, s.lease_until, s.run_at, coalesce(s.errors, '')
from json_each({{param "batch"}}) v
join {{.Side}} s on s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k'
