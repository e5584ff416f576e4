-- Purpose: delete the periods of unique keys of a queue that is deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the write transaction in which queue_uses.sql has found nothing that needs it.
delete from dibs_unique_window
where queue = ?1
