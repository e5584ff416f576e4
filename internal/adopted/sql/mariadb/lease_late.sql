-- Purpose: find leases that have ended; after a minute also those of other queues, which may have no sweep.
-- Parameters: passed, a JSON array of keys to leave out.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far, the current time, 1 if the lease is of this queue.
-- Concurrency: as lease_held.sql.
select json_object('k', convert(s.key using utf8mb4))
from {{.Side}} s
where s.source = {{.Source}} and s.token is not null and s.lease_until <= {{.Micros}}
and (s.queue = {{.Name}} or s.lease_until <= {{.Micros}} - 60000000)
and {{.NotAmong "convert(s.key using utf8mb4)" (param "passed")}}
order by case when s.queue = {{.Name}} then 0 else 1 end
limit 1000
-- then
select convert(s.key using utf8mb4), s.attempt, s.excused, s.worker, coalesce(s.errors, ''), {{.Micros}}, case when s.queue = {{.Name}} then 1 else 0 end
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token is not null and s.lease_until <= {{.Micros}}
for update skip locked
