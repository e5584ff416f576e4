-- Purpose: log a claim, so that the sweep looks at its leases when they end.
-- Parameters: ?1 token, ?2 queue, ?3 worker, ?4 when to look, ?5 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
insert into dibs_claim (token, queue, worker, check_at, ids)
values (?1, ?2, ?3, ?4, ?5)
