-- Purpose: have the sweep look at a claim sooner, after one of its leases was shortened.
-- Parameters: ?1 token, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the extension. It changes nothing, and so does not
--   write, if the sweep looks in time anyway.
update dibs_claim
set check_at = ?2
where token = ?1 and check_at > ?2
