-- Purpose: claim jobs that fair.sql has found.
-- Parameters: ?1 a JSON array of their ids, ?2 now, ?3 token, ?4 end of the lease, ?5 worker.
-- Columns out: as claim.sql.
-- Concurrency: as claim.sql.
declare
  @ids nvarchar(max) = ?1,
  @now bigint = ?2,
  @token binary(16) = ?3,
  @lease_until bigint = ?4,
  @worker varbinary(255) = ?5;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select j.id
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
where j.gate = 0 and j.turn is not null
option (force order, loop join, maxdop 1);
with q as (
  select
    j.id,
    j.kind,
    j.payload,
    j.metadata,
    j.priority,
    j.run_at,
    j.gate,
    j.token,
    j.lease_until,
    j.worker,
    j.claimed_at,
    j.attempt,
    j.excused,
    j.max_attempts,
    j.group_key,
    j.unique_key,
    j.unique_until,
    j.cancel_requested,
    j.created_at,
    j.errors,
    j.flow
  from @jobs i
  join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
  where j.group_key is null or not exists (
      select 1
      from dibs_wake w
      where w.queue = j.queue and w.group_key = j.group_key and w.not_before <= @now
    )
)
update q
set
  gate = 3,
  token = @token,
  lease_until = @lease_until,
  worker = @worker,
  claimed_at = @now,
  attempt = attempt + 1
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
option (force order, loop join, maxdop 1);
