-- Purpose: have the sweep look at claims sooner, after one of their leases was shortened.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the extension. It changes the claims in any case, so that no sweep on another node of a cluster
--   puts off its next look meanwhile.
update json_table(?1, '$[*]' columns (token varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_claim c force index (primary) on c.token = unhex(i.token)
set c.check_at = least(c.check_at - 1, ?2)
