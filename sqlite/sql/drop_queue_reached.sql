-- Purpose: forget the turn of a queue that was deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the transaction that has deleted the queue (drop_queue.sql).
delete from dibs_reached
where queue = ?1
