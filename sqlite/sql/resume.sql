-- Purpose: give the jobs that a worker of this name holds in a queue to the same worker under a new token.
-- Parameters: ?1 queue, ?2 worker, ?3 now, ?4 new token, ?5 end of the new leases.
-- Columns out: as claim.sql; no row for a job whose lease has ended, that has no attempts left or is to be cancelled.
-- Concurrency: fenced by the tokens of the worker's claims, which are lost from here on. It reads the whole log of
--   claims, but only when a worker restarts.
update dibs_job
set
  token = ?4,
  lease_until = ?5,
  claimed_at = ?3,
  attempt = attempt + 1
where id in (
    select i.value
    from dibs_claim c
    cross join json_each(c.ids) i
    where c.queue = ?1 and c.worker = ?2
  )
  and token in (
    select c.token
    from dibs_claim c
    where c.queue = ?1 and c.worker = ?2
  )
  and lease_until > ?3
  and attempt - excused < max_attempts
  and cancel_requested = 0
returning
  id,
  kind,
  payload,
  metadata,
  priority,
  run_at,
  attempt,
  excused,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  cancel_requested,
  created_at,
  errors,
  coalesce(flow, 0)
