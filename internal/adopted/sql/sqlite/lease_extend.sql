-- Purpose: extend leases in the side table.
-- Parameters: batch, a JSON array of {"k": key as text, "t": token}; micros, the new length of the leases.
-- Columns out: the keys whose leases were extended.
-- Concurrency: one statement in a write transaction.
-- The source depends on v only so that the planner does not compare each lease with each element of the batch.
update {{.Side}} as s
set lease_until = {{.Micros}} + {{param "micros"}}
from json_each({{param "batch"}}) v
where s.source = coalesce({{.Source}}, v.value) and s.key = v.value ->> 'k' and s.token = v.value ->> 't' and s.lease_until > {{.Micros}}
returning key
