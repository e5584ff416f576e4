-- Purpose: find out whether counts are wrong, from what shows it without counting rows: one is
--   below zero, or jobs are counted where there are none, as after rows were inserted or
--   deleted by hand.
-- Parameters: none.
-- Columns out: whether some are; repairable.sql says which.
-- Concurrency: one snapshot; every transaction changes rows and their counts together. Reads
--   the tally, which has few rows after merge_tally.sql, and one entry of an index for each
--   queue and state. The claims, which have no index by queue, are looked at while they are
--   fewer than 500. Locks nothing.
select exists (
    select
    from (
        select
            queue,
            coalesce(sum(waiting), 0) as waiting,
            coalesce(sum(blocked), 0) as blocked,
            coalesce(sum(running), 0) as running,
            coalesce(sum(completed), 0) as completed,
            coalesce(sum(dead), 0) as dead,
            coalesce(sum(cancelled), 0) as cancelled
        from dibs.tally
        group by queue
    ) t
    join dibs.queue q on q.name = t.queue
    where least(t.waiting, t.blocked, t.running, t.completed, t.dead, t.cancelled) < 0
        or (
            t.waiting > 0
            and not exists (select from dibs.job j where j.queue = t.queue and j.gate = 0 offset 0)
            and not exists (select from dibs.job j where j.queue = t.queue and j.gate = 2 offset 0)
        )
        or (
            t.blocked > 0
            and not exists (select from dibs.job j where j.queue = t.queue and j.gate = 1 offset 0)
            and not exists (select from dibs.job j where j.queue = t.queue and j.gate = 5 offset 0)
        )
        or (
            t.running > 0
            and (select count(*) from (select from dibs.claim limit 500) few) < 500
            and not exists (select from (select queue from dibs.claim limit 500) c where c.queue = t.queue)
        )
        or (t.completed > 0 and not exists (select from dibs.finished f where f.queue = t.queue and f.state = 'completed' offset 0))
        or (t.dead > 0 and not exists (select from dibs.finished f where f.queue = t.queue and f.state = 'dead' offset 0))
        or (t.cancelled > 0 and not exists (select from dibs.finished f where f.queue = t.queue and f.state = 'cancelled' offset 0))
)
