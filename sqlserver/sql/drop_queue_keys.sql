-- Purpose: delete the periods of unique keys of a queue that is deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the turn to delete the queue, in which queue_uses.sql has found nothing that needs it. Nobody enqueues meanwhile, so nobody
--   holds a lock of its keys.
declare
  @queue varbinary(255) = ?1;
delete from dibs_unique_window
where queue = @queue;
delete from dibs_key
where queue = @queue;
