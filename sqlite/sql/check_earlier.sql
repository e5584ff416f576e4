-- Purpose: have the sweep look at claims sooner, after one of their leases was shortened.
-- Parameters: ?1 a JSON array of tokens in hexadecimal digits, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the extension. It changes nothing, and so does not
--   write, if the sweep looks in time anyway.
update dibs_claim
set check_at = ?2
where token in (select unhex(value) from json_each(?1)) and check_at > ?2
