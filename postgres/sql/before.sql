-- Purpose: read a page of the jobs that a job comes after, in any state.
-- Parameters: $1 the job that comes after them; $2 only ids above this; $3 how many.
-- Columns out: whether there is no such job any more; id; how many jobs it waits for; the columns of the view, in its
--   order. In the order of the ids.
-- Concurrency: one snapshot over all tables, so a job that is just finishing or being put back is in one of them, and
--   an edge is read with the job that it names; locks nothing.
with page as materialized (
    select e.parent
    from dibs.edge e
    where e.child = $1 and e.parent > $2
    order by e.parent
    limit $3
)
select
    v.id is null,
    p.parent,
    case when v.state = 'blocked' and v.flow is not null then (
        select count(*)
        from dibs.edge e
        where e.child = v.id and e.open::int = 1
    ) else 0 end,
    v.*
from page p
left join lateral (
    select l.*
    from dibs.live_job l
    where l.id = any (array[p.parent])
    union all
    select e.*
    from dibs.ended_job e
    where e.id = any (array[p.parent])
    offset 0
) v on true
order by p.parent
