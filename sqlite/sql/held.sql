-- Purpose: read jobs that are claimed, whether or not their leases have ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, queue, group, attempt, excused, max_attempts, run_at,
--   claimed_at, lease_until, worker, cancel_requested, errors.
-- Concurrency: with the comparison of token and lease_until this is the fence of all that a worker
--   writes; the only write transaction of the file, so the answer stays true until then.
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
  j.errors
from json_each(?1) i
cross join dibs_job j on j.id = i.value
where j.token is not null
