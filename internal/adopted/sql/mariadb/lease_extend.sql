-- Purpose: extend leases in the side table.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token}; micros, the new length of the leases.
-- Columns out: the keys whose leases were extended.
-- Concurrency: skips leases that another transaction has locked.
select v.value
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token = {{.Member "t"}} and s.lease_until > {{.Micros}}
for update skip locked
-- then
update {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
set s.lease_until = {{.Micros}} + {{param "micros"}}
-- then
select {{.Member "k"}}
from {{.Batch}}
