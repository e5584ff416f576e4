-- Purpose: list the groups of a queue, after a change of its group settings.
-- Parameters: ?1 queue.
-- Columns out: group.
-- Concurrency: a plain read of an index, not of the jobs.
declare
  @queue varbinary(255) = ?1;
select distinct group_key
from dibs_job with (index (place), forceseek)
where queue = @queue and group_key is not null and place in (0, 1, 3);
