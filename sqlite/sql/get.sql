-- Purpose: read one job in any state.
-- Parameters: ?1 id.
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
  j.group_key,
  case when j.group_key is null then 0 else coalesce(l.places, q.group_limit) end,
  j.unique_key,
  j.unique_until,
  j.worker,
  j.token,
  j.lease_until,
  j.cancel_requested,
  j.created_at,
  j.claimed_at,
  null,
  j.errors,
  null
from dibs_job j
join dibs_queue q on q.name = j.queue
left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
where j.id = ?1
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
  f.group_key,
  case when f.group_key is null then 0 else coalesce(l.places, q.group_limit) end,
  f.unique_key,
  f.unique_until,
  f.worker,
  null,
  null,
  f.cancel_requested,
  f.created_at,
  f.claimed_at,
  f.finished_at,
  f.errors,
  f.result
from dibs_finished f
join dibs_queue q on q.name = f.queue
left join dibs_group_limit l on l.queue = f.queue and l.group_key = f.group_key
where f.id = ?1
