-- Purpose: delete the wake rows of a queue that is deleted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the turn to delete the queue, so nobody adds any; without jobs nobody needs them.
delete from dibs_wake
where queue = ?1
