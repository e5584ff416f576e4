-- Purpose: look at a claim again when the next of its leases ends.
-- Parameters: ?1 token, ?2 when.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep.
update dibs_claim
set check_at = ?2
where token = ?1
