-- Purpose: list the jobs of a flow that have not ended, newest first.
-- Parameters: ?1 flow; ?2 id that those of the jobs are below; ?3 how many are listed at most.
-- Columns out: id.
-- Concurrency: a plain read of an index that has only jobs of flows; locks nothing.
declare
  @flow bigint = ?1,
  @before bigint = ?2,
  @n int = ?3;
select top (@n) j.id
from dibs_job j with (index (flow), forceseek)
where j.flow = @flow and j.id < @before
order by j.id desc;
