-- Purpose: find the priorities that have due jobs, ascending.
-- Parameters: ?1 queue, ?2 only priorities above this, ?3 now, ?4 a JSON array of
--   kinds or null for all, ?5 how many.
-- Columns out: priority.
-- Concurrency: a plain read.
-- One index seek. It gives the next priority in use, whether or not a job is due: a walk over all of them in one statement
-- would read all ready jobs.
declare
  @queue varbinary(255) = ?1,
  @after smallint = ?2;
select top (1) priority
from dibs_job with (index (lane), forceseek)
where queue = @queue and gate = 0 and priority > @after
order by priority;
