-- Purpose: lengthen one lease, and write the progress of its attempt.
-- Parameters: ?1 id, ?2 token, ?3 now, ?4 the lease's new end, ?5 progress in JSON, or null if
--   there is none to write.
-- Columns out: cancel_requested; whether the attempt has run longer than its queue allows; no row
--   if the lease was lost.
-- Concurrency: fenced by the token and the lease's end. No index contains the changed columns.
update dibs_job
set
  lease_until = ?4,
  progress = coalesce(json_set(?5, '$.attempt', attempt), progress)
where id = ?1 and token = ?2 and lease_until > ?3
returning
  cancel_requested,
  coalesce(claimed_at < ?3 - (
    select nullif(q.job_timeout, 0)
    from dibs_queue q
    where q.name = dibs_job.queue
  ), 0)
