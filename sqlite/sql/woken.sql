-- Purpose: take the groups whose place has become free.
-- Parameters: ?1 queue.
-- Columns out: group.
-- Concurrency: the groups are settled in the same write transaction.
delete from dibs_wake
where queue = ?1
returning group_key
