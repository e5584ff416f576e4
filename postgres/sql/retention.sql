-- Purpose: delete finished jobs that their queue no longer keeps, and periods of unique
--   keys that have passed.
-- Parameters: $1 how many at most per queue and state, and how many periods; $2 how many jobs in all.
-- Columns out: deleted jobs and periods.
-- Concurrency: in the turn of turn_sweep.sql. Rows that are just being requeued are
--   skipped. It steps through the index to the oldest job of each queue and state, and
--   then, as the index is in the order of time, reads only jobs past retention. A period
--   whose row an enqueue has locked is skipped. A job stays until those that come after it have ended; their rows
--   are read again by every sweep.
-- A job may get a follower before settle_take.sql marks it, so all edges are looked at.
-- With "offset 0" the edges of each job are looked up; without it, the planner may read all edges.
with recursive oldest (queue, state, finished_at) as (
    (
        select o.queue, o.state, o.finished_at
        from dibs.finished o
        order by o.queue, o.state, o.finished_at, o.id
        limit 1
    )
    union all
    select x.queue, x.state, x.finished_at
    from oldest l,
        lateral (
            select o.queue, o.state, o.finished_at
            from dibs.finished o
            where (o.queue, o.state) > (l.queue, l.state)
            order by o.queue, o.state, o.finished_at, o.id
            limit 1
        ) x
), gone as (
    delete from dibs.finished
    where current_setting('dibs_turn.sweep', true) = 'true'
        and ctid = any (array(
            select f.ctid
            from oldest l,
                lateral (
                    select case when l.state = 'completed' then q.keep_completed when l.state = 'dead' then q.keep_dead else q.keep_cancelled end as keep
                    from dibs.queue q
                    where q.name = l.queue
                    offset 0
                ) s,
                lateral (
                    select o.ctid
                    from dibs.finished o
                    where o.queue = l.queue and o.state = l.state and l.finished_at < (statement_timestamp() - s.keep)
                        and o.finished_at < (statement_timestamp() - s.keep)
                        and not exists (
                            select
                            from dibs.edge e
                            join dibs.job c on c.id = any (array[e.child])
                            where e.parent = o.id
                            offset 0
                        )
                    order by o.finished_at, o.id
                    limit $1
                    for update skip locked
                ) f
            limit $2
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
), passed as (
    delete from dibs.unique_window
    where current_setting('dibs_turn.sweep', true) = 'true'
        and ctid = any (array(
            select w.ctid
            from dibs.unique_window w
            where w.until <= statement_timestamp()
            order by w.until
            limit $1
            for update skip locked
        ))
    returning queue
)
select (select count(*) from gone), (select count(*) from passed)
