-- Purpose: list running jobs, newest first.
-- Parameters: $1 queue, $2 kind, $3 group, each '' for all; $4 only ids below
--   this; $5 how many.
-- Columns out: id, queue, kind, state, payload, metadata, priority, run_at, attempt,
--   excused, max_attempts, group, its limit, unique key, until when, worker, token,
--   lease_until, cancel_requested, created_at, claimed_at, finished_at, errors, result.
-- Concurrency: finds them by the log of claims instead of among all that wait; "offset
--   0" keeps the planner from the other way round. Locks nothing.
with claimed as materialized (
    select i.id, c.token
    from dibs.claim c, unnest(c.ids) as i (id)
    where i.id < $4
)
select
    j.id,
    j.queue,
    j.kind,
    case when j.token is not null then 'running' when j.gate = 1 then 'blocked' else 'waiting' end,
    j.payload,
    j.metadata,
    j.priority,
    j.run_at,
    j.attempt,
    j.excused,
    j.max_attempts,
    coalesce(j.group_key, ''),
    case when j.group_key is null then 0 else coalesce(l.places, q.group_limit) end,
    coalesce(j.unique_key, ''),
    coalesce(j.unique_until, ''),
    coalesce(j.worker, ''),
    j.token,
    j.lease_until,
    j.cancel_requested,
    j.created_at,
    j.claimed_at,
    null::timestamptz,
    j.errors::text,
    null::text
from claimed c
cross join lateral (
    select r.*
    from dibs.job r
    where r.id = c.id and r.token = c.token
    offset 0
) j
join dibs.queue q on q.name = j.queue
left join dibs.group_limit l on l.queue = j.queue and l.group_key = j.group_key
where ($1 = '' or $1 = j.queue)
    and ($2 = '' or $2 = j.kind)
    and ($3 = '' or j.group_key = $3)
order by j.id desc
limit $5
