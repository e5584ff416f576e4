-- Purpose: count every queue.
-- Parameters: $1 where to stop counting scheduled jobs of a queue, plus one;
--   $2 length of the window in minutes.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: plain reads that lock nothing. Counts come from tally, what
--   happened lately from there and the history; of the ready
--   index only each priority's first entries and at most $1 future ones are read. Bears rows as
--   merge_tally.sql does.
-- For thousands of queues it reads each table once, without joins by queue: it steps
--   through the indexes from one queue that has jobs to the next, and groups the results
--   by queue.
with recursive lane (queue, priority, n, run_at, token, before, scheduled) as (
    (
        select
            j.queue,
            j.priority,
            1,
            j.run_at,
            j.token,
            0::bigint,
            (
                select count(*)
                from (
                    select
                    from dibs.job f
                    where f.queue = j.queue and f.gate = 0 and f.priority = j.priority and f.run_at > statement_timestamp()
                    limit $1
                ) s
            )
        from dibs.job j
        where j.gate = 0
        order by j.queue, j.priority, j.run_at, j.id
        limit 1
    )
    union all
    select
        y.queue,
        y.priority,
        y.n,
        y.run_at,
        y.token,
        y.before,
        (
            select count(*)
            from (
                select
                from dibs.job f
                where f.queue = y.queue and f.gate = 0 and f.priority = y.priority and f.run_at > statement_timestamp()
                limit greatest($1 - y.before, 0)
            ) s
        )
    from (
        select
            x.queue,
            x.priority,
            case when x.queue = l.queue then l.n + 1 else 1 end as n,
            x.run_at,
            x.token,
            case when x.queue = l.queue then l.before + l.scheduled else 0 end as before
        from lane l,
            lateral (
                select j.queue, j.priority, j.run_at, j.token
                from dibs.job j
                where j.gate = 0 and (j.queue, j.priority) > (l.queue, case when l.n < 64 then l.priority else 32767 end)
                order by j.queue, j.priority, j.run_at, j.id
                limit 1
            ) x
    ) y
), later (queue) as (
    (
        select j.queue
        from dibs.job j
        where j.gate = 2
        order by j.queue, j.run_at
        limit 1
    )
    union all
    select x.queue
    from later l,
        lateral (
            select j.queue
            from dibs.job j
            where j.gate = 2 and j.queue > l.queue
            order by j.queue, j.run_at
            limit 1
        ) x
), figure as (
    select
        q.name as queue,
        q.paused,
        null::bigint as waiting,
        null::bigint as scheduled,
        null::bigint as blocked,
        null::bigint as running,
        null::bigint as completed,
        null::bigint as dead,
        null::bigint as cancelled,
        null::timestamptz as oldest,
        null::timestamptz as since,
        null::bigint as enqueued,
        null::bigint as claimed,
        null::bigint as succeeded,
        null::bigint as failed,
        null::bigint as wait_us,
        null::bigint as run_us
    from dibs.queue q
    union all
    select
        t.queue,
        null,
        t.waiting,
        null,
        t.blocked,
        t.running,
        t.completed,
        t.dead,
        t.cancelled,
        null,
        case when t.recent then t.at end,
        case when t.recent then t.enqueued end,
        case when t.recent then t.claimed end,
        case when t.recent then t.succeeded end,
        case when t.recent then t.failed end,
        case when t.recent then t.wait_us end,
        case when t.recent then t.run_us end
    from (
        select
            y.*,
            y.at >= date_trunc('minute', statement_timestamp() - (interval '1 minute' * ($2 - 1))) and y.at <= clock_timestamp() as recent
        from dibs.tally y
    ) t
    union all
    select
        h.queue,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        h.minute,
        h.enqueued,
        h.claimed,
        h.succeeded,
        h.failed,
        h.wait_us,
        h.run_us
    from dibs.history h
    where h.minute >= date_trunc('minute', statement_timestamp() - (interval '1 minute' * ($2 - 1))) and h.minute <= clock_timestamp() and h.queue <> ''
    union all
    select
        l.queue,
        null,
        null,
        l.scheduled,
        null,
        null,
        null,
        null,
        null,
        case
            when l.run_at > statement_timestamp() then null
            when l.token is null then l.run_at
            else (
                select j.run_at
                from dibs.job j
                where j.queue = l.queue and j.gate = 0 and j.priority = l.priority
                    and j.run_at <= statement_timestamp() and j.token is null
                order by j.run_at, j.id
                limit 1
            )
        end,
        null,
        null,
        null,
        null,
        null,
        null,
        null
    from lane l
    union all
    select
        l.queue,
        null,
        null,
        (
            select count(*)
            from (
                select
                from dibs.job j
                where j.queue = l.queue and j.gate = 2 and j.run_at > statement_timestamp()
                limit $1
            ) f
        ),
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null,
        null
    from later l
)
select
    queue,
    coalesce(bool_or(paused), false),
    (coalesce(sum(waiting), 0) % 1e18)::bigint,
    least(coalesce(sum(scheduled), 0), $1)::bigint,
    (coalesce(sum(blocked), 0) % 1e18)::bigint,
    (coalesce(sum(running), 0) % 1e18)::bigint,
    (coalesce(sum(completed), 0) % 1e18)::bigint,
    (coalesce(sum(dead), 0) % 1e18)::bigint,
    (coalesce(sum(cancelled), 0) % 1e18)::bigint,
    coalesce(extract(epoch from statement_timestamp() - min(oldest)) * 1000000, 0)::bigint,
    coalesce(extract(epoch from statement_timestamp() - min(since)) * 1000000, 0)::bigint,
    (coalesce(sum(enqueued), 0) % 1e18)::bigint,
    (coalesce(sum(claimed), 0) % 1e18)::bigint,
    (coalesce(sum(succeeded), 0) % 1e18)::bigint,
    (coalesce(sum(failed), 0) % 1e18)::bigint,
    (coalesce(sum(wait_us), 0) % 1e18)::bigint,
    (coalesce(sum(run_us), 0) % 1e18)::bigint
from figure
group by queue
having bool_or(paused) is not null or coalesce(sum(waiting), 0) + coalesce(sum(blocked), 0) > 0
order by queue
