-- Purpose: write the leases of claimed rows into the side table.
-- Parameters: batch, a JSON array of {"k": key as text, "g": group}; token; worker; length of the lease in microseconds.
-- Columns out: key, number of the attempt, attempts that do not count, times, errors so far.
-- Concurrency: the primary key admits one claim; a row that meanwhile is leased, delayed or dead is skipped.
insert into {{.Side}} as s (source, key, queue, grp, token, worker, claimed_at, lease_until, attempt, excused, run_at, dead)
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
where true -- without it SQLite reads "on" as part of a join
on conflict (source, key) do update
set
    queue = excluded.queue,
    grp = excluded.grp,
    token = excluded.token,
    worker = excluded.worker,
    claimed_at = excluded.claimed_at,
    lease_until = excluded.lease_until,
    attempt = s.attempt + 1
where s.token is null and s.dead = 0 and s.run_at <= {{.Micros}}
returning key, attempt, excused, claimed_at, lease_until, coalesce(errors, '')
