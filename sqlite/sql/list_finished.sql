-- Purpose: list the finished jobs of one queue in one state, last finished first.
-- Parameters: ?1 queue, ?2 state, ?3 kind and ?4 group, each '' for all; only those
--   before the one that finished at ?5 with id ?6; ?7 how many.
-- Columns out: id, queue, kind, state, payload, metadata, priority, run_at, attempt,
--   excused, max_attempts, group, its limit, unique key, until when, worker, token,
--   lease_until, cancel_requested, created_at, claimed_at, finished_at, errors, result.
-- Concurrency: a plain read along the index by time; locks nothing.
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
where f.queue = ?1 and f.state = ?2
  and (f.finished_at, f.id) < (?5, ?6)
  and ?3 in ('', f.kind)
  and (?4 = '' or f.group_key = ?4)
order by f.finished_at desc, f.id desc
limit ?7
