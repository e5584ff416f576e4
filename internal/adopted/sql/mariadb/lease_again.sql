-- Purpose: give a restarted worker the leases that a worker with its name holds, under a new token.
-- Parameters: worker; token; micros, the new length of the leases.
-- Columns out: key, number of the attempt, attempts that do not count, times, errors so far.
-- Concurrency: skips leases that another transaction has locked, or has just extended.
select json_object('k', convert(s.key using utf8mb4))
from {{.Side}} s
where s.source = {{.Source}} and s.queue = {{.Name}} and s.worker = {{param "worker"}} and s.token is not null
and s.lease_until > {{.Micros}} and s.attempt - s.excused < {{.MostBeside "convert(s.key using utf8mb4)"}}
limit 10000
-- then
select v.value
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.queue = {{.Name}} and s.worker = {{param "worker"}} and s.token is not null and s.lease_until > {{.Micros}}
for update skip locked
-- then
update {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
set
    s.token = {{param "token"}},
    s.claimed_at = {{.Micros}},
    s.lease_until = {{.Micros}} + {{param "micros"}},
    s.attempt = s.attempt + 1
-- then
select convert(s.key using utf8mb4), s.attempt, s.excused, s.claimed_at, s.lease_until, coalesce(s.errors, '')
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
