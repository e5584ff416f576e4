-- Purpose: delete the oldest finished jobs of a queue in one state.
-- Parameters: ?1 queue, ?2 state, ?3 only jobs that finished up to this time, ?4 how many.
-- Columns out: none.
-- Concurrency: it locks the jobs, and passes over those that others have locked, and over the index entries of jobs that are
--   kept for others that come after them. Their steps and edges go first. Only the last statement counts.
declare
  @queue varbinary(255) = ?1,
  @state varchar(16) = ?2,
  @up_to bigint = ?3,
  @n int = ?4;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select top (@n) f.id
from dibs_finished c with (index (by_time), forceseek)
join dibs_finished f with (rowlock, updlock, readpast, readcommittedlock, forceseek) on f.id = c.id
where c.queue = @queue and c.state = @state and c.finished_at <= @up_to and c.followed = 0
  and f.queue = @queue and f.state = @state and f.finished_at <= @up_to and f.followed = 0
order by c.finished_at, c.id
option (force order, loop join, maxdop 1);
delete from e
from @jobs i
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = i.id
option (force order, loop join, maxdop 1);
delete from s
from @jobs i
join dibs_step s with (rowlock, updlock, forceseek) on s.job = i.id
option (force order, loop join, maxdop 1);
set nocount off;
delete from f
from @jobs i
join dibs_finished f with (rowlock, updlock, forceseek) on f.id = i.id
option (force order, loop join, maxdop 1);
