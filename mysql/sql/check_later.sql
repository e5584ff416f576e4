-- Purpose: have the sweep look at claims later: when the next of their leases end.
-- Parameters: ?1 a JSON array of objects: token in hexadecimal digits, and at, when to look.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep, which has locked the claims (due_claims.sql).
update json_table(?1, '$[*]' columns (token varchar(32) character set utf8mb4 path '$.token', at bigint path '$.at')) i
straight_join dibs_claim c force index (primary) on c.token = unhex(i.token)
set c.check_at = i.at
