-- Purpose: read jobs that are claimed, whether or not their leases have ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, queue, group, attempt, excused, max_attempts, run_at,
--   claimed_at, lease_until, worker, cancel_requested, errors, whether others come after it, whether it is in a flow,
--   whether it has steps.
-- Concurrency: it locks the jobs, and passes over those that others have locked. Comparing token and lease_until fences the
--   writes that follow.
declare
  @ids nvarchar(max) = ?1;
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
  case when j.flow is not null then 1 else 0 end,
  case when exists (
    select 1
    from dibs_step s
    where s.job = j.id
  ) then 1 else 0 end
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
where j.gate = 3
option (force order, loop join, maxdop 1);
