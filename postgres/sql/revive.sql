-- Purpose: put those jobs back that were cancelled because of jobs that have just been requeued. They wait for others again.
-- Parameters: $1 ids of the jobs requeued.
-- Columns out: how many. The setting dibs_turn.revived lists them until the transaction ends.
-- Concurrency: after requeue.sql, in its transaction, with the lock of turn_settle.sql. Unique keys as there.
with gone as (
    delete from dibs.finished
    where id = any (array(
        select f.id
        from unnest($1::bigint[]) as i (id)
        cross join lateral (
            select r.id
            from dibs.finished r
            where r.cause = i.id
            offset 0
        ) f
        where exists (select from dibs.job j where j.id = i.id offset 0)
    ))
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
        g.run_at,
        5,
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
    returning id, queue
), counted as (
    insert into dibs.tally (queue, blocked, cancelled)
    select queue, count(*), - count(*)
    from back
    group by queue
)
select
    count(*),
    set_config('dibs_turn.revived', coalesce(string_agg(b.id::text, ','), ''), true)
from back b
