-- Purpose: delete finished jobs when an operator asks for it.
-- Parameters: $1 queue or '' for all, $2 state or '' for all, $3 age in
--   microseconds, $4 how many at most per queue and state.
-- Columns out: deleted. A job stays until those that come after it have ended.
-- Concurrency: rows that are just being requeued or pruned are skipped.
-- A job may get a follower before settle_take.sql marks it, so all edges are looked at.
-- With "offset 0" the edges of each job are looked up; without it, the planner may read all edges.
with gone as (
    delete from dibs.finished
    where ctid = any (array(
        select f.ctid
        from dibs.queue q,
            unnest(array['completed', 'dead', 'cancelled']) as s (state),
            lateral (
                select o.ctid
                from dibs.finished o
                where o.queue = q.name and o.state = s.state
                    and o.finished_at <= (statement_timestamp() - ($3::bigint * interval '1 microsecond'))
                    and not exists (
                        select
                        from dibs.edge e
                        join dibs.job c on c.id = any (array[e.child])
                        where e.parent = o.id
                        offset 0
                    )
                order by o.finished_at, o.id
                limit $4
                for update skip locked
            ) f
        where ($1 = '' or $1 = q.name) and ($2 = '' or $2 = s.state)
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
select count(*)
from gone
