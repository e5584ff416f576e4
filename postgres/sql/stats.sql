-- Purpose: count every queue.
-- Parameters: $1 where to stop counting scheduled jobs of a queue, plus one.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: plain reads that lock nothing. Counts come from tally; of the ready
--   index only each priority's first entries and at most $1 future ones are read.
with recursive lane (queue, priority, n) as (
    select q.name, l.priority, 1
    from dibs.queue q,
        lateral (
            select j.priority
            from dibs.job j
            where j.queue = q.name and j.gate = 0
            order by j.priority
            limit 1
        ) l
    union all
    select l.queue, x.priority, l.n + 1
    from lane l,
        lateral (
            select j.priority
            from dibs.job j
            where j.queue = l.queue and j.gate = 0 and j.priority > l.priority
            order by j.priority
            limit 1
        ) x
    where l.n < 64
), counts as (
    select
        queue,
        sum(waiting) as waiting,
        sum(blocked) as blocked,
        sum(running) as running,
        sum(completed) as completed,
        sum(dead) as dead,
        sum(cancelled) as cancelled,
        sum(enqueued) filter (where recent) as enqueued,
        sum(claimed) filter (where recent) as claimed,
        sum(succeeded) filter (where recent) as succeeded,
        sum(failed) filter (where recent) as failed,
        sum(wait_us) filter (where recent) as wait_us,
        sum(run_us) filter (where recent) as run_us,
        min(at) filter (where recent) as since
    from (
        select
            queue,
            at,
            waiting,
            blocked,
            running,
            completed,
            dead,
            cancelled,
            enqueued,
            claimed,
            succeeded,
            failed,
            wait_us,
            run_us,
            at >= date_trunc('minute', statement_timestamp() - interval '5 minutes') as recent
        from dibs.tally
    ) t
    group by queue
)
select
    q.name,
    q.paused,
    coalesce(c.waiting, 0)::bigint,
    (
        select count(*)
        from (
            select 1
            from lane l,
                lateral (
                    select 1
                    from dibs.job j
                    where j.queue = q.name and j.gate = 0 and j.priority = l.priority and j.run_at > statement_timestamp()
                    limit $1
                ) f
            where l.queue = q.name
            union all
            select 1
            from (
                select 1
                from dibs.job j
                where j.queue = q.name and j.gate = 2 and j.run_at > statement_timestamp()
                limit $1
            ) g
            limit $1
        ) s
    ),
    coalesce(c.blocked, 0)::bigint,
    coalesce(c.running, 0)::bigint,
    coalesce(c.completed, 0)::bigint,
    coalesce(c.dead, 0)::bigint,
    coalesce(c.cancelled, 0)::bigint,
    coalesce((
        select extract(epoch from statement_timestamp() - min(o.run_at)) * 1000000
        from lane l,
            lateral (
                select j.run_at
                from dibs.job j
                where j.queue = q.name and j.gate = 0 and j.priority = l.priority
                    and j.run_at <= statement_timestamp() and j.token is null
                order by j.run_at, j.id
                limit 1
            ) o
        where l.queue = q.name
    ), 0)::bigint,
    coalesce(extract(epoch from statement_timestamp() - c.since) * 1000000, 0)::bigint,
    coalesce(c.enqueued, 0)::bigint,
    coalesce(c.claimed, 0)::bigint,
    coalesce(c.succeeded, 0)::bigint,
    coalesce(c.failed, 0)::bigint,
    coalesce(c.wait_us, 0)::bigint,
    coalesce(c.run_us, 0)::bigint
from dibs.queue q
left join counts c on c.queue = q.name
order by q.name
