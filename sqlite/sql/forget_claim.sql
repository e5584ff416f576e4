-- Purpose: forget a claim none of whose jobs carries its token any more.
-- Parameters: ?1 token.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep.
delete from dibs_claim
where token = ?1
