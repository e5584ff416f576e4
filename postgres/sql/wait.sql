-- Purpose: find the jobs, among those that somebody waits for, that have ended.
-- Parameters: $1 ids; $2 how many to find.
-- Columns out: whether there is no such job; id; 0; the columns of
--   ended_job.
-- Concurrency: one snapshot over both tables, so a job that is just finishing or being put
--   back is in one of them; locks nothing.
with gone as materialized (
    select i.id
    from unnest($1::bigint[]) as i (id)
    where not exists (
        select
        from dibs.job j
        where j.id = any (array[i.id])
        offset 0
    )
    limit $2
)
select v.id is null, g.id, 0, v.*
from gone g
left join lateral (
    select e.*
    from dibs.ended_job e
    where e.id = any (array[g.id])
    offset 0
) v on true
