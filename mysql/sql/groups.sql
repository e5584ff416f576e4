-- Purpose: list the groups of a queue, after a change of its group settings.
-- Parameters: ?1 queue.
-- Columns out: group.
-- Concurrency: a plain read of an index, not of the jobs.
select distinct group_key
from dibs_job force index (place)
where queue = ?1 and group_key is not null and place in (0, 1, 3)
