-- Purpose: delete the starts of a queue that is deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the turn to delete the queue, so nobody adds any.
delete from dibs_start
where queue = ?1
