-- Purpose: give a restarted worker the leases that a worker with its name holds, under a new token.
-- Parameters: worker; token; micros, the new length of the leases.
-- Columns out: key, number of the attempt, attempts that do not count, times, errors so far.
-- Concurrency: skips leases that another transaction has locked, or has just extended.
with mine as materialized (
    select s.ctid as dibs_at
    from {{.Side}} s
    where s.source = {{.Source}} and s.queue = {{.Name}} and s.worker = {{param "worker"}} and s.token is not null
    and s.lease_until > {{.Micros}} and (s.attempt - s.excused) < {{.MostBeside "(s.key::jsonb)"}}
    limit 10000
    for update of s skip locked
)
update {{.Side}} s
set
    token = {{param "token"}},
    claimed_at = {{.Micros}},
    lease_until = {{.Micros}} + {{param "micros"}},
    attempt = s.attempt + 1
where s.ctid = any (array(select dibs_at from mine))
returning s.key, s.attempt, s.excused, s.claimed_at, s.lease_until, coalesce(s.errors, '')
