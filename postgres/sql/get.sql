-- Purpose: read one job in any state.
-- Parameters: $1 id.
-- Columns out: id, queue, kind, state, payload, metadata, priority, run_at, attempt,
--   excused, max_attempts, group, its limit, unique key, until when, worker, token,
--   lease_until, cancel_requested, created_at, claimed_at, finished_at, errors, result.
-- Concurrency: one snapshot over both tables, so a job that is just finishing is
--   found in one of them; locks nothing.
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
from dibs.job j
join dibs.queue q on q.name = j.queue
left join dibs.group_limit l on l.queue = j.queue and l.group_key = j.group_key
where j.id = $1
union all
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
from dibs.finished f
join dibs.queue q on q.name = f.queue
left join dibs.group_limit l on l.queue = f.queue and l.group_key = f.group_key
where f.id = $1
