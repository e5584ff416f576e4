-- Purpose: have the groups that have no rate of their own follow their queue's.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that has set the queue's. What a
--   group has saved up, or owes, stays until there is no rate.
declare
  @queue varbinary(255) = ?1;
delete from dibs_rate
where queue = @queue and group_key <> 0x and n = 0
  and exists (select 1 from dibs_queue where name = @queue and group_rate_n = 0);
