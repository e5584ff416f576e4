-- Purpose: give the jobs that a worker of this name holds in a queue to the same worker under a new token.
-- Parameters: ?1 queue, ?2 worker, ?3 now, ?4 new token, ?5 end of the new leases.
-- Columns out: as claim.sql; no row for a job whose lease has ended, that has no attempts left or is to be cancelled.
-- Concurrency: fenced by the tokens of the worker's claims, which are lost from here on. It locks the jobs, and passes over those
--   that others have locked.
declare
  @queue varbinary(255) = ?1,
  @worker varbinary(255) = ?2,
  @now bigint = ?3,
  @token binary(16) = ?4,
  @lease_until bigint = ?5;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select j.id
from dibs_claim c with (index (by_queue), forceseek)
cross apply openjson(c.ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
where c.queue = @queue and c.worker = @worker
  and j.token = c.token and j.lease_until > @now and j.attempt - j.excused < j.max_attempts and j.cancel_requested = 0
option (force order, loop join, maxdop 1);
update j
set
  token = @token,
  lease_until = @lease_until,
  claimed_at = @now,
  attempt = j.attempt + 1
output
  inserted.id,
  inserted.kind,
  inserted.payload,
  inserted.metadata,
  inserted.priority,
  inserted.run_at,
  inserted.attempt,
  inserted.excused,
  inserted.max_attempts,
  inserted.group_key,
  inserted.unique_key,
  inserted.unique_until,
  inserted.cancel_requested,
  inserted.created_at,
  inserted.errors,
  coalesce(inserted.flow, 0)
from @jobs i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
