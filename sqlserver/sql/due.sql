-- Purpose: move grouped jobs that have become due to their groups.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
declare
  @queue varbinary(255) = ?1,
  @now bigint = ?2,
  @n int = ?3;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select top (@n) j.id
from dibs_job c with (index (later), forceseek)
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
where c.place = 2 and c.queue = @queue and c.run_at <= @now
  and j.place = 2 and j.run_at <= @now
order by c.run_at
option (force order, loop join, maxdop 1);
update j
set gate = 1
output inserted.group_key
from @jobs i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
