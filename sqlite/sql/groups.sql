-- Purpose: list the groups of a queue, after a change of its group settings.
-- Parameters: ?1 queue.
-- Columns out: group.
-- Concurrency: the groups are settled in the same write transaction. It reads two
--   indexes, not the jobs.
select group_key
from dibs_job
where queue = ?1 and group_key is not null and gate in (0, 3)
union
select group_key
from dibs_job
where queue = ?1 and gate = 1
