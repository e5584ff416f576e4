-- Purpose: find the leases that still hold.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token, "o": 1 if this transaction has claimed it}.
-- Columns out: key, attempts, attempts that do not count, worker, errors so far, the current time, 1 if the lease is of this queue.
-- Concurrency: locks them for this transaction, and skips leases that another transaction has locked.
select s.key, s.attempt, s.excused, s.worker, coalesce(s.errors, ''), {{.Micros}}, case when s.queue = {{.Name}} then 1 else 0 end
from jsonb_array_elements({{param "batch"}}::jsonb) v
join {{.Side}} s on s.source = {{.Source}} and s.key = (v->>'k')
where case when s.token = (v->>'t') and (s.lease_until > {{.Micros}} or v->>'o' = '1') then true else false end -- as in change.sql
for update of s skip locked
