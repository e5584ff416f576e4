-- Purpose: take a group's own limit away.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places.
delete from dibs_group_limit
where queue = ?1 and group_key = ?2
