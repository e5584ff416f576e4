-- Purpose: lengthen leases, and write the progress of their attempts.
-- Parameters: ?1 a JSON array of objects: id, token in hexadecimal digits, and progress unless there is none to write;
--   ?2 now, ?3 the leases' new end.
-- Columns out: id, cancel_requested, whether the attempt has run longer than its queue allows, whether the sweep would
--   look at the claim too late; no row for a lease that was lost.
-- Concurrency: fenced by the token and the lease's end. No index contains the changed columns.
-- With a statement for each of 1,000 leases it took a third more time.
update dibs_job
set
  lease_until = ?3,
  progress = coalesce(json_set(l.progress, '$.attempt', attempt), dibs_job.progress)
from (
  select
    value ->> 'id' as id,
    unhex(value ->> 'token') as token,
    value -> 'progress' as progress
  from jsonb_each(?1)
) l
where dibs_job.id = l.id and dibs_job.token = l.token and lease_until > ?2
returning
  id,
  cancel_requested,
  coalesce(claimed_at < ?2 - (
    select nullif(q.job_timeout, 0)
    from dibs_queue q
    where q.name = dibs_job.queue
  ), 0),
  coalesce((
    select c.check_at > ?3
    from dibs_claim c
    where c.token = dibs_job.token
  ), 0)
