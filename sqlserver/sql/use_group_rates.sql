-- Purpose: have claims look for the rates of a queue's groups from now on.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: it waits for a change of the queue's settings.
declare
  @queue varbinary(255) = ?1;
update dibs_queue
set version = version + 1, group_rates = 1
where name = @queue and group_rates = 0;
