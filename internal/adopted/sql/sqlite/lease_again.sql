-- Purpose: give a restarted worker the leases that a worker with its name holds, under a new token.
-- Parameters: worker; token; micros, the new length of the leases.
-- Columns out: key, number of the attempt, attempts that do not count, times, errors so far.
-- Concurrency: one statement in a write transaction.
update {{.Side}} as s
set
    token = {{param "token"}},
    claimed_at = {{.Micros}},
    lease_until = {{.Micros}} + {{param "micros"}},
    attempt = attempt + 1
where s.source = {{.Source}} and s.queue = {{.Name}} and s.worker = {{param "worker"}} and s.token is not null
and s.lease_until > {{.Micros}} and s.attempt - s.excused < {{.MostBeside "s.key"}}
returning key, attempt, excused, claimed_at, lease_until, coalesce(errors, '')
