-- Purpose: find the leases that still hold.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token, "o": 1 if this transaction has claimed it}.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far, the time now, 1 if it is this queue's.
-- Concurrency: locks them for this transaction; leases that somebody else has locked are passed over.
-- The source depends on v for the planner: it would otherwise compare each lease with each member of the batch.
select s.key, s.attempt, s.excused, s.worker, coalesce(s.errors, ''), {{.Micros}}, case when s.queue = {{.Name}} then 1 else 0 end
from json_each({{param "batch"}}) v
join {{.Side}} s on s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k' and s.token = v.value ->> 't'
where (s.lease_until > {{.Micros}} or v.value ->> 'o' = 1)
