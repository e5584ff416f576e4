-- Purpose: end waiting and blocked jobs, and ask the holders of running ones to stop.
-- Parameters: $1 ids.
-- Columns out: id, queue, state ('cancelled' or 'running').
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
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors)
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
        g.errors
    from gone g
    left join dibs.queue q on q.name = g.queue
    where coalesce(q.keep_cancelled > interval '0', true)
    returning queue
), unneeded as (
    delete from dibs.payload p
    using gone g
    join dibs.queue q on q.name = g.queue and q.keep_cancelled <= interval '0'
    where g.payload is null and p.id = any (array[g.id])
), woken as (
    insert into dibs.wake (queue, group_key)
    select distinct queue, group_key
    from gone
    where group_key is not null
), counted as (
    insert into dibs.tally (queue, waiting, blocked, cancelled)
    select
        g.queue,
        - count(*) filter (where g.gate <> 1),
        - nullif(count(*) filter (where g.gate = 1), 0),
        nullif((select count(*) from kept k where k.queue = g.queue), 0)
    from gone g
    group by g.queue
)
select id, queue, 'running' from asked
union all
select id, queue, 'cancelled' from gone
