-- Purpose: find the leases that still hold.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token, "o": 1 if this transaction has claimed it}.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far, the current time, 1 if the lease is of this queue.
-- Concurrency: runs in a write transaction.
-- The source depends on v only so that the planner does not compare each lease with each element of the batch.
select s.key, s.attempt, s.excused, s.worker, coalesce(s.errors, ''), {{.Micros}}, case when s.queue = {{.Name}} then 1 else 0 end
from json_each({{param "batch"}}) v
join {{.Side}} s on s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k' and s.token = v.value ->> 't'
where (s.lease_until > {{.Micros}} or v.value ->> 'o' = 1)
