-- Purpose: begin the turns of a queue that has become fair: take away those that jobs have from a time when it was fair
--   before. In a strict queue jobs that have been started get the first turn, as they hold their places.
-- Parameters: ?1 queue, ?2 whether it is strict.
-- Columns out: none.
-- Concurrency: it passes over jobs that others have locked.
declare
  @queue varbinary(255) = ?1,
  @strict tinyint = ?2;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select j.id
from dibs_job c with (index (place), forceseek)
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
where c.queue = @queue and c.place in (0, 3) and j.place in (0, 3)
option (force order, loop join, maxdop 1);
update j
set
  turn = case when @strict = 1 and j.attempt > 0 then 1 end,
  admitted = case when @strict = 1 and j.attempt > 0 then 0 end
from @jobs i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
