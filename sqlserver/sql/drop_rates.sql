-- Purpose: delete the rows of groups that follow their queue's rate and have saved up all of it: a
--   group without a row counts as one of these.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: none.
-- Concurrency: in the turn to sweep. It passes over rows that others have locked, and keeps those of queues with starts that are
--   not counted yet.
declare
  @now bigint = ?1,
  @n int = ?2;
declare @rates table (queue varbinary(255) not null, group_key varbinary(255) not null, primary key (queue, group_key));
insert into @rates (queue, group_key)
select top (@n) r.queue, r.group_key
from dibs_rate c with (index (saved), forceseek)
join dibs_rate r with (rowlock, updlock, readpast, readcommittedlock, forceseek) on r.queue = c.queue and r.group_key = c.group_key
where c.n = 0 and c.full_ns <= @now * 1000 and c.group_key <> 0x
  and r.n = 0 and r.full_ns <= @now * 1000 and r.not_before <= @now and r.held_until is null
  and not exists (select 1 from dibs_start s where s.queue = r.queue)
order by c.full_ns
option (force order, loop join, maxdop 1);
delete from r
from @rates i
join dibs_rate r with (rowlock, updlock, forceseek) on r.queue = i.queue and r.group_key = i.group_key
option (force order, loop join, maxdop 1);
