-- Purpose: give a job that a worker holds to the same worker under a new token.
-- Parameters: ?1 id, ?2 its token, ?3 now, ?4 new token, ?5 end of the new lease.
-- Columns out: as claim.sql; no row if the lease has ended, no attempts are left, or
--   the job is to be cancelled.
-- Concurrency: fenced by the old token, which is lost from here on.
update dibs_job
set
  token = ?4,
  lease_until = ?5,
  claimed_at = ?3,
  attempt = attempt + 1
where id = ?1 and token = ?2 and lease_until > ?3
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
  errors
