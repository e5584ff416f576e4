-- Purpose: list jobs that a job waits for.
-- Parameters: $1 the job that waits; $2 how many are listed at most.
-- Columns out: id.
-- Concurrency: a plain read of one snapshot, by the edges of the job; locks nothing. Only the index of open
--   edges has this condition, so the server does not walk the edges of all jobs.
select e.parent
from dibs.edge e
where e.child = $1 and e.open::int = 1 and exists (select 1 from dibs.job j where j.id = e.parent)
order by e.parent
limit $2
