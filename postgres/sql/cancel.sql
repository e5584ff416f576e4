-- Purpose: end waiting and blocked jobs, and ask the holders of running ones to stop.
-- Parameters: $1 ids.
-- Columns out: id, queue, state ('cancelled' or 'running'), whether others come after its end.
-- Concurrency: the rows are locked first and judged in their newest version. Rows that
--   are locked already are skipped, so that it holds no lock while it waits for another;
--   the caller finds them with present.sql and repeats this for them.
-- A queue that was enqueued into with SQL may have no settings yet: the defaults count.
with held as materialized (
    select j.id, j.token is not null as running
    from dibs.job j
    where j.id = any ($1::bigint[])
    order by j.id
    for no key update skip locked
), asked as (
    update dibs.job j
    set cancel_requested = true
    from held h
    where j.id = any (array[h.id]) and h.running
    returning j.id, j.queue
), gone as (
    delete from dibs.job j
    using held h
    where j.id = any (array[h.id]) and not h.running
    returning j.*
), kept as (
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors, flow, followed)
    select
        g.id,
        'cancelled',
        statement_timestamp(),
        g.run_at,
        g.created_at,
        g.claimed_at,
        g.attempt,
        g.excused,
        g.max_attempts,
        g.priority,
        true,
        g.queue,
        g.kind,
        g.group_key,
        g.unique_key,
        g.unique_until,
        g.worker,
        g.payload,
        g.metadata,
        g.errors,
        g.flow,
        g.followed
    from gone g
    left join dibs.queue q on q.name = g.queue
    where g.followed or coalesce(q.keep_cancelled > interval '0', true)
    returning id, queue
), unneeded as (
    delete from dibs.payload p
    using gone g
    join dibs.queue q on q.name = g.queue and q.keep_cancelled <= interval '0'
    where g.payload is null and not g.followed and p.id = any (array[g.id])
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(g.id)
    from gone g
    where g.followed or (g.flow is not null and (g.id in (select k.id from kept k)) = false)
    having count(*) > 0
), stepless as (
    delete from dibs.step s
    using gone g
    join dibs.queue q on q.name = g.queue and q.keep_cancelled <= interval '0'
    where g.stepped and not g.followed and s.job = any (array[g.id])
), woken as (
    insert into dibs.wake (queue, group_key)
    select distinct queue, group_key
    from gone
    where group_key is not null
), counted as (
    insert into dibs.tally (queue, waiting, blocked, cancelled)
    select
        g.queue,
        - count(*) filter (where not (g.gate in (1, 5))),
        - nullif(count(*) filter (where g.gate in (1, 5)), 0),
        nullif((select count(*) from kept k where k.queue = g.queue), 0)
    from gone g
    group by g.queue
)
select id, queue, 'running', false from asked
union all
select id, queue, 'cancelled', followed from gone
