-- Purpose: take a group's rate away.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: none.
-- Concurrency: the group is settled in the same write transaction.
delete from dibs_rate
where queue = ?1 and group_key = ?2
