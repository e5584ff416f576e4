-- Purpose: read jobs that are claimed, whether or not their leases have ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, queue, group, attempt, excused, max_attempts, run_at,
--   claimed_at, lease_until, worker, cancel_requested, errors, whether others come after it, whether it is in a flow,
--   whether it has steps.
-- Concurrency: the only write transaction of the file, so the rows stay the same until
--   the writes that follow. Comparing token and lease_until fences those.
select
  j.id,
  j.token,
  j.queue,
  j.group_key,
  j.attempt,
  j.excused,
  j.max_attempts,
  j.run_at,
  j.claimed_at,
  j.lease_until,
  j.worker,
  j.cancel_requested,
  j.errors,
  j.followed,
  j.flow is not null,
  exists (
    select 1
    from dibs_step s
    where s.job = j.id
  )
from json_each(?1) i
cross join dibs_job j on j.id = i.value
where j.token is not null
