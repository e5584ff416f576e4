-- Purpose: list the jobs of a flow that have not ended, newest first.
-- Parameters: ?1 flow; ?2 id that those of the jobs are below; ?3 how many are listed at most.
-- Columns out: id.
-- Concurrency: a plain read of an index that has only jobs of flows; locks nothing.
select j.id
from dibs_job j
where j.flow = ?1 and j.id < ?2
order by j.id desc
limit ?3
