-- Purpose: log a claim, so that the sweep looks at its leases when they end.
-- Parameters: ?1 token, ?2 queue, ?3 worker, ?4 when to look, ?5 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
declare
  @token binary(16) = ?1,
  @queue varbinary(255) = ?2,
  @worker varbinary(255) = ?3,
  @check_at bigint = ?4,
  @ids nvarchar(max) = ?5;
insert into dibs_claim (token, queue, worker, check_at, ids)
values (@token, @queue, @worker, @check_at, @ids);
