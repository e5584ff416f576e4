-- Purpose: have what comes after a job come after those too that the job's end has added, which get its flow.
-- Parameters: arrays of equal length: $1 id of the added job, $2 the job that has ended, $3 flow.
-- Columns out: none.
-- Concurrency: in the transaction that has written the end and inserted the jobs: no settlement looks at the end before
--   all is there. A follower that has come since heritage.sql is among them.
-- An edge is as open as that from the job: what has started or ended stays so, and waits if it is requeued.
-- Those that need the job failed are not among them: they are cancelled, as it is completed.
-- What an added job itself comes after, through however many others, comes only after those added jobs that come after
--   no older one: otherwise they might wait for each other for ever. That holds for all that the call adds together.
-- A follower that is gone, with its edges, gets no new ones.
-- An "exists" would be hashed by a plan that was made while the tables were empty, and read the edges of all jobs.
with recursive heir as materialized (
    select h.id, h.parent, h.flow
    from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as h (id, parent, flow)
), above (heir, parent, id) as (
    select h.id, h.parent, f.parent
    from heir h
    cross join lateral (
        select e.parent
        from dibs.edge e
        where e.child = h.id and e.parent <> h.parent
        offset 0
    ) f
    union
    select a.heir, a.parent, f.parent
    from above a
    cross join lateral (
        select e.parent
        from dibs.edge e
        where e.child = a.id and e.parent <> a.parent
        offset 0
    ) f
), left_edges as materialized (
    select f.child, h.id, f.need, f.open
    from heir h
    cross join lateral (
        select e.child, e.need, e.open
        from dibs.edge e
        where e.parent = h.parent and e.need <> 'failed'
        offset 0
    ) f
    where f.child <> all ($1::bigint[])
        and (
            not exists (select from above a where a.heir = h.id and a.id <> all ($1::bigint[]))
            or not exists (select from above a where a.id = f.child)
        )
        and (
            exists (select from dibs.job j where j.id = f.child offset 0)
            or exists (select from dibs.finished d where d.id = f.child offset 0)
        )
), added as (
    insert into dibs.edge (child, parent, need, open)
    select e.child, e.id, e.need, e.open
    from left_edges e
)
update dibs.job j
set
    flow = h.flow,
    followed = j.followed or coalesce((
        select true
        from dibs.edge e
        where e.parent = h.parent and e.need <> 'failed'
        limit 1
    ), false)
from heir h
where j.id = any (array[h.id])
