-- Purpose: delete the notes of a queue that is deleted about jobs to be counted.
-- Parameters: ?1 queue.
-- Columns out: none.
-- Concurrency: in the turn to delete the queue; without jobs nothing is to be counted.
delete from dibs_limit_set
where queue = ?1
