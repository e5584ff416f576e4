-- Purpose: list jobs of one final state, last finished first.
-- Parameters: $1 queue, $2 kind, $3 group, each '' for all; $4 state; $5 and $6 only
--   those before this time and id; $7 how many.
-- Columns out: id, queue, kind, state, payload, metadata, priority, run_at, attempt,
--   excused, max_attempts, group, its limit, unique key, until when, worker, token,
--   lease_until, cancel_requested, created_at, claimed_at, finished_at, errors, result.
-- Concurrency: reads finished rows only; locks nothing. With many queues each gives
--   its own newest.
select
    f.id,
    f.queue,
    f.kind,
    f.state,
    f.payload,
    f.metadata,
    f.priority,
    f.run_at,
    f.attempt,
    f.excused,
    f.max_attempts,
    coalesce(f.group_key, ''),
    case when f.group_key is null then 0 else coalesce(l.places, q.group_limit) end,
    coalesce(f.unique_key, ''),
    coalesce(f.unique_until, ''),
    coalesce(f.worker, ''),
    null::uuid,
    null::timestamptz,
    f.cancel_requested,
    f.created_at,
    f.claimed_at,
    f.finished_at,
    f.errors::text,
    f.result
from (
    select
        x.id,
        x.queue,
        x.kind,
        x.state,
        x.payload,
        x.metadata,
        x.priority,
        x.run_at,
        x.attempt,
        x.excused,
        x.max_attempts,
        x.group_key,
        x.unique_key,
        x.unique_until,
        x.worker,
        x.cancel_requested,
        x.created_at,
        x.claimed_at,
        x.finished_at,
        x.errors,
        x.result
    from (
        select q.name
        from dibs.queue q,
            lateral (
                select o.finished_at, o.id
                from dibs.finished o
                where o.queue = q.name and o.state = $4
                    and (o.finished_at, o.id) < ($5::timestamptz, $6::bigint)
                    and ($2 = '' or $2 = o.kind)
                    and ($3 = '' or o.group_key = $3)
                order by o.finished_at desc, o.id desc
                limit 1
            ) h
        where ($1 = '' or $1 = q.name)
        order by h.finished_at desc, h.id desc
        limit $7
    ) n,
        lateral (
            select
                o.id,
                o.queue,
                o.kind,
                o.state,
                o.payload,
                o.metadata,
                o.priority,
                o.run_at,
                o.attempt,
                o.excused,
                o.max_attempts,
                o.group_key,
                o.unique_key,
                o.unique_until,
                o.worker,
                o.cancel_requested,
                o.created_at,
                o.claimed_at,
                o.finished_at,
                o.errors,
                o.result
            from dibs.finished o
            where o.queue = n.name and o.state = $4
                and (o.finished_at, o.id) < ($5::timestamptz, $6::bigint)
                and ($2 = '' or $2 = o.kind)
                and ($3 = '' or o.group_key = $3)
            order by o.finished_at desc, o.id desc
            limit $7
        ) x
    order by x.finished_at desc, x.id desc
    limit $7
) f
join dibs.queue q on q.name = f.queue
left join dibs.group_limit l on l.queue = f.queue and l.group_key = f.group_key
order by f.finished_at desc, f.id desc
