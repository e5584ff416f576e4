-- Purpose: list jobs that a job waits for.
-- Parameters: $1 the job that waits; $2 how many are listed at most.
-- Columns out: id; what is needed of it: completed, ended or failed.
-- Concurrency: a plain read of one snapshot, by the edges of the job; locks nothing. It reads 1,000 edges at most: some
--   are open though their jobs have ended, until settle_close.sql has judged these ends. Only the index of open
--   edges has this condition, so the server does not walk the edges of all jobs.
select e.parent, e.need
from (
    select o.parent, o.need
    from dibs.edge o
    where o.child = $1 and o.open::int = 1
    order by o.parent
    limit 1000
) e
where exists (select 1 from dibs.job j where j.id = e.parent offset 0)
order by e.parent
limit $2
