-- Purpose: write the leases of claimed rows into the side table.
-- Parameters: batch, a JSON array of {"k": key as text, "g": group}; token; worker; length of the lease in microseconds.
-- Columns out: key, number of the attempt, attempts that do not count, times, errors so far.
-- Concurrency: the primary key admits one claim; a row that meanwhile is leased, delayed or dead is skipped. The token is set last, as
-- each assignment sees those before it.
insert into {{.Side}} (source, "key", queue, grp, token, worker, claimed_at, lease_until, attempt, excused, run_at, dead)
select
    {{.Source}},
    {{.Member "k"}},
    {{.Name}},
    {{.Member "g"}},
    {{param "token"}},
    {{param "worker"}},
    {{.Micros}},
    {{.Micros}} + {{param "micros"}},
    1,
    0,
    0,
    0
from {{.Batch}}
on duplicate key update
    queue = case when {{.Free}} then values(queue) else {{.Side}}.queue end,
    grp = case when {{.Free}} then values(grp) else {{.Side}}.grp end,
    worker = case when {{.Free}} then values(worker) else {{.Side}}.worker end,
    claimed_at = case when {{.Free}} then values(claimed_at) else {{.Side}}.claimed_at end,
    lease_until = case when {{.Free}} then values(lease_until) else {{.Side}}.lease_until end,
    attempt = case when {{.Free}} then {{.Side}}.attempt + 1 else {{.Side}}.attempt end,
    token = case when {{.Free}} then values(token) else {{.Side}}.token end
-- then
select convert(s.key using utf8mb4), s.attempt, s.excused, s.claimed_at, s.lease_until, coalesce(s.errors, '')
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token = {{param "token"}}
