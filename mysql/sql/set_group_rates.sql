-- Purpose: have the groups that have no rate of their own follow their queue's.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that has set the queue's. What a
--   group has saved up, or owes, stays until there is no rate.
delete from dibs_rate
where queue = ?1 and group_key <> '' and n = 0
  and (select group_rate_n from dibs_queue where name = ?1) = 0
