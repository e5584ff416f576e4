-- Purpose: find leases that are over.
-- Parameters: none.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far.
-- Concurrency: as lease_held.sql.
select s.key, s.attempt, s.excused, s.worker, coalesce(s.errors, '')
from {{.Side}} s
where s.source = {{.Source}} and s.lease_until <= {{.Micros}} and s.token is not null
limit 1000
