-- Purpose: read a group's own limit.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: places; no row if the group has no limit of its own.
-- Concurrency: a plain read.
select places
from dibs_group_limit
where queue = ?1 and group_key = ?2
