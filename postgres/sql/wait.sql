-- Purpose: find the jobs, among those that somebody waits for, that have ended.
-- Parameters: $1 ids; $2 how many to find.
-- Columns out: whether there is no such job; id; the columns of ended_job.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
select v.id is null, i.id, v.*
from unnest($1::bigint[]) as i (id)
left join lateral (
    select e.*
    from dibs.ended_job e
    where e.id = any (array[i.id])
    offset 0
) v on true
where not exists (
    select
    from dibs.job j
    where j.id = any (array[i.id])
    offset 0
)
limit $2
