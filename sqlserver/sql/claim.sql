-- Purpose: claim due jobs of one priority, oldest first; claim_newest is the same in the other
--   order (statements.go).
-- Parameters: ?1 queue, ?2 priority, ?3 now, ?4 a JSON array of kinds or null for
--   all, ?5 how many, ?6 token, ?7 end of the lease, ?8 worker.
-- Columns out: id, kind, payload, metadata, priority, run_at, attempt, excused,
--   max_attempts, group, unique key, unique until, cancel_requested, created_at, errors, flow or 0.
-- Concurrency: the index is read without locks, by versions. Each job is then locked by its primary key alone, and looked
--   at again; locked ones are passed over. The second statement begins once they are locked: the first may be older than
--   the wake rows of their groups. Jobs of groups whose places are to be given anew are left out.
--   In a fair queue it leaves jobs with turns to fair.sql.
declare
  @queue varbinary(255) = ?1,
  @priority smallint = ?2,
  @now bigint = ?3,
  @kinds nvarchar(max) = ?4,
  @n int = ?5,
  @token binary(16) = ?6,
  @lease_until bigint = ?7,
  @worker varbinary(255) = ?8;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select top (@n) j.id
from dibs_job c with (index (lane), forceseek)
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
where c.queue = @queue and c.gate = 0 and c.priority = @priority and c.run_at <= @now
  and j.queue = @queue and j.gate = 0 and j.priority = @priority and j.run_at <= @now
  and (j.turn is null or (select q.claim_order from dibs_queue q where q.name = @queue) <> 'fair')
  and (@kinds is null or j.kind in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@kinds) v))
  and (j.group_key is null or not exists (
    select 1
    from dibs_wake w
    where w.queue = @queue and w.group_key = j.group_key and w.not_before <= @now
  ))
order by c.run_at, c.id
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
