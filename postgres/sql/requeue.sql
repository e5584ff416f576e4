-- Purpose: put finished jobs back to waiting, due now, all attempts allowed again.
-- Parameters: $1 ids; $2 null, or only jobs that ended then or before.
-- Columns out: id, queue.
-- What its attempts have done (the table step) stays done.
-- Concurrency: only one caller can delete a row and insert it again. A job does not get a
--   unique key back that another job holds, or that it held only until it was claimed. If
--   another job takes the key at the same time, the unique index fails the statement, and
--   the caller repeats it.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
), gone as (
    delete from dibs.finished
    where id = any ($1::bigint[]) and ($2::timestamptz is null or finished_at <= $2)
    returning *
), ranked as (
    select h.*, row_number() over (partition by queue, unique_key, may_hold order by id) as nth
    from (
        select g.*, unique_key is not null and (unique_until = 'finished' or attempt = 0) as may_hold
        from gone g
    ) h
), back as (
    insert into dibs.job (id, queue, kind, payload, metadata, priority, run_at, gate, attempt, excused, max_attempts, group_key, unique_key, unique_until, unique_held, worker, created_at, claimed_at, errors, flow, followed, stepped)
    select
        g.id,
        g.queue,
        g.kind,
        g.payload,
        g.metadata,
        g.priority,
        (select at from clock),
        case when g.group_key is null then 0 else 1 end,
        g.attempt,
        g.attempt,
        g.max_attempts,
        g.group_key,
        g.unique_key,
        g.unique_until,
        g.may_hold and g.nth = 1
            and not exists (
                select
                from dibs.job h
                where h.queue = g.queue and h.unique_key = g.unique_key and h.unique_held
            ),
        g.worker,
        g.created_at,
        g.claimed_at,
        g.errors,
        g.flow,
        g.followed,
        case when exists (select from dibs.step s where s.job = g.id) then true end
    from ranked g
    returning id, queue, gate, group_key
), woken as (
    insert into dibs.wake (queue, group_key)
    select distinct queue, group_key
    from back
    where group_key is not null
), counted as (
    insert into dibs.tally (queue, waiting, blocked, completed, dead, cancelled)
    select
        queue,
        nullif(count(*) filter (where group_key is null), 0),
        nullif(count(*) filter (where group_key is not null), 0),
        - nullif(count(*) filter (where state = 'completed'), 0),
        - nullif(count(*) filter (where state = 'dead'), 0),
        - nullif(count(*) filter (where state = 'cancelled'), 0)
    from gone
    group by queue
)
select id, queue
from back
