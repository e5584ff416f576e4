-- Purpose: find the leases that still hold.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token, "o": 1 if this transaction has claimed it}.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far, the current time, 1 if the lease is of this queue.
-- Concurrency: locks them for this transaction, and skips leases that another transaction has locked.
select convert(s.key using utf8mb4), s.attempt, s.excused, s.worker, coalesce(s.errors, ''), {{.Micros}}, case when s.queue = {{.Name}} then 1 else 0 end
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token = {{.Member "t"}} and (s.lease_until > {{.Micros}} or {{.Member "o"}} = 1)
for update skip locked
