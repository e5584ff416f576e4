-- Purpose: delete what the rates have saved up, and the rates of groups, of a queue that is deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the turn to delete the queue, in which queue_uses.sql has found nothing that needs it.
declare
  @queue varbinary(255) = ?1;
delete from dibs_rate
where queue = @queue;
