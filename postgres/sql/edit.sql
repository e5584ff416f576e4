-- Purpose: change priority or run_at of jobs that are not running.
-- Parameters: $1 ids, $2 priority or null, $3 run_at or null.
-- Columns out: id, queue, priority.
-- Concurrency: as cancel.sql; a job that was claimed meanwhile is not changed. A grouped
--   job gives up its place and competes for it again, unless it has been started in a
--   strict queue. One that waits for others goes on to do so. A queue that was enqueued into with SQL may have no settings yet.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
), held as materialized (
    select
        j.id,
        j.gate,
        j.gate = 0 and coalesce(q.strict, false) and j.attempt > 0 as keeps,
        greatest(coalesce($3::timestamptz, j.run_at), case when $3::timestamptz is null then j.run_at else (select at from clock) end) as run_at
    from dibs.job j
    left join dibs.queue q on q.name = j.queue
    where j.id = any ($1::bigint[]) and j.token is null
    order by j.id
    for no key update of j skip locked
), changed as (
    update dibs.job j
    set
        priority = coalesce($2::smallint, j.priority),
        run_at = h.run_at,
        gate = case when j.gate = 5 then 5 when j.group_key is null or h.keeps then 0 when h.run_at <= (select at from clock) then 1 else 2 end,
        returned = j.returned or $3::timestamptz is null
    from held h
    where j.id = any (array[h.id]) and j.token is null
    returning j.id, j.queue, j.group_key, j.priority, j.gate, h.gate as old_gate
), woken as (
    insert into dibs.wake (queue, group_key)
    select distinct queue, group_key
    from changed
    where group_key is not null
), counted as (
    insert into dibs.tally (queue, waiting, blocked)
    select c.queue, - c.n, c.n
    from (
        select queue, count(*) filter (where gate in (1, 5)) - count(*) filter (where old_gate in (1, 5)) as n
        from changed
        group by queue
    ) c
    where c.n <> 0
)
select id, queue, priority
from changed
