-- Purpose: move the ends of leases.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token}; micros, from now on.
-- Columns out: the keys whose leases were moved.
-- Concurrency: one statement in a write transaction.
-- The source depends on v for the planner: it would otherwise compare each lease with each member of the batch.
update {{.Side}} as s
set lease_until = {{.Micros}} + {{param "micros"}}
from json_each({{param "batch"}}) v
where s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k' and s.token = v.value ->> 't' and s.lease_until > {{.Micros}}
returning key
