-- Purpose: claim due jobs of one priority, oldest first; claim_newest is the same in the other
--   order (statements.go).
-- Parameters: ?1 queue, ?2 priority, ?3 now, ?4 a JSON array of kinds or null for
--   all, ?5 how many, ?6 token, ?7 end of the lease, ?8 worker.
-- Columns out: id, kind, payload, metadata, priority, run_at, attempt, excused,
--   max_attempts, group, unique key, unique until, cancel_requested, created_at, errors, flow or 0.
-- Concurrency: the only write transaction of the file, so the jobs that the subquery
--   finds stay free. Their rows leave the ready index, so that claims never read running
--   jobs.
update dibs_job
set
  token = ?6,
  lease_until = ?7,
  worker = ?8,
  claimed_at = ?3,
  attempt = attempt + 1
where id in (
  select id
  from dibs_job indexed by dibs_job_ready
  where queue = ?1 and gate = 0 and token is null and priority = ?2
    and run_at <= ?3
    and (?4 is null or kind in (select value from json_each(?4)))
  order by run_at, id
  limit ?5
)
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
