-- Purpose: delete some finished jobs.
-- Parameters: $1 ids; $2 null, or only jobs that ended then or before.
-- Columns out: id, queue. A job stays until those that come after it have ended.
-- Concurrency: rows that are just being requeued or deleted are skipped. The others are locked in
--   the order of their ids.
-- A job may get a follower before settle_take.sql marks it, so all edges are looked at.
-- With "offset 0" the edges of each job are looked up; without it, the planner may read all edges.
with gone as (
    delete from dibs.finished
    where id = any (array(
        select o.id
        from dibs.finished o
        where o.id = any ($1::bigint[]) and ($2::timestamptz is null or o.finished_at <= $2)
            and not exists (
                select
                from dibs.edge e
                join dibs.job c on c.id = any (array[e.child])
                where e.parent = o.id
                offset 0
            )
        order by o.id
        for update skip locked
    ))
    returning queue, state, id, payload, flow
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and p.id = any (array[g.id])
), cut as (
    delete from dibs.edge e
    using gone g
    where g.flow is not null and e.child = any (array[g.id])
), stepless as (
    delete from dibs.step s
    using gone g
    where s.job = any (array[g.id])
), counted as (
    insert into dibs.tally (queue, completed, dead, cancelled)
    select
        queue,
        - nullif(count(*) filter (where state = 'completed'), 0),
        - nullif(count(*) filter (where state = 'dead'), 0),
        - nullif(count(*) filter (where state = 'cancelled'), 0)
    from gone
    group by queue
)
select id, queue
from gone
