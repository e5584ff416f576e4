-- Purpose: take places of a group from waiting jobs: from all loose ones (places.sql), and
--   from the last of the started ones if the limit has become too low for them.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict, ?5 how many
--   started ones there is room for.
-- Columns out: gate; whether the job was a started one; the turn and the admission of a fair queue, or null.
-- Concurrency: in the turn to admit; admit.sql gives the places to the first jobs in the same transaction. It passes over jobs that
--   others have locked, and sorts the others once they are locked.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2,
  @now bigint = ?3,
  @strict tinyint = ?4,
  @room int = ?5;
declare @locked table (id bigint primary key, started tinyint not null, nth bigint not null);
insert into @locked (id, started, nth)
select
  x.id,
  x.started,
  row_number() over (partition by x.started order by x.priority, x.run_at, x.id)
from (
  select
    j.id,
    j.priority,
    j.run_at,
    case when @strict = 1 and j.attempt > 0 then 1 else 0 end as started
  from dibs_job c with (index (place), forceseek)
  join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
  where c.queue = @queue and c.place = 0 and c.group_key = @group
    and j.group_key = @group and j.place = 0
) x
option (force order, loop join, maxdop 1);
update j
set gate = case when j.run_at <= @now then 1 else 2 end
output inserted.gate, i.started, inserted.turn, inserted.admitted
from @locked i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
where i.started = 0 or i.nth > @room
option (force order, loop join, maxdop 1);
