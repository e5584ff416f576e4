-- Purpose: lengthen leases, and write the progress of their attempts.
-- Parameters: ?1 a JSON array of objects: id, token in hexadecimal digits, and progress unless there is none to write;
--   ?2 now, ?3 the leases' new end.
-- Columns out: id, cancel_requested, whether the attempt has run longer than its queue allows, whether the sweep would
--   look at the claim too late; no row for a lease that was lost.
-- Concurrency: fenced by the token and the lease's end. It passes over jobs that others have locked. No index contains the
--   changed columns.
declare
  @leases nvarchar(max) = ?1,
  @now bigint = ?2,
  @until bigint = ?3;
declare @held table (id bigint primary key, progress nvarchar(max) null);
insert into @held (id, progress)
select j.id, i.progress
from openjson(@leases) with (id bigint '$.id', token varchar(36) '$.token', progress nvarchar(max) '$.progress' as json) i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
where j.token = convert(binary(16), replace(i.token, '-', ''), 2) and j.lease_until > @now
option (force order, loop join, maxdop 1);
update j
set
  lease_until = @until,
  progress = coalesce(json_modify(i.progress, '$.attempt', j.attempt) collate Latin1_General_100_BIN2_UTF8, j.progress)
output
  inserted.id,
  inserted.cancel_requested,
  case when inserted.claimed_at < @now - q.job_timeout then 1 else 0 end,
  case when c.check_at > @until then 1 else 0 end
from @held i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
outer apply (
  select nullif(q.job_timeout, 0) as job_timeout
  from dibs_queue q
  where q.name = j.queue
) q
left join dibs_claim c on c.token = j.token
option (force order, loop join, maxdop 1);
