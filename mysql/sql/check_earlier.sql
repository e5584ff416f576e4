-- Purpose: have the sweep look at claims sooner, after one of their leases was shortened.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the extension. It changes nothing if the sweep looks in time anyway.
update json_table(?1, '$[*]' columns (token varchar(32) character set utf8mb4 path '$')) i
straight_join dibs_claim c force index (primary) on c.token = unhex(i.token)
set c.check_at = ?2
where c.check_at > ?2
