-- Purpose: claim jobs that fair.sql has found.
-- Parameters: ?1 a JSON array of their ids, ?2 now, ?3 token, ?4 end of the lease, ?5 worker.
-- Columns out: as claim.sql.
-- Concurrency: as claim.sql.
update dibs_job
set
  token = ?3,
  lease_until = ?4,
  worker = ?5,
  claimed_at = ?2,
  attempt = attempt + 1
where id in (select value from json_each(?1)) and gate = 0 and token is null
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
