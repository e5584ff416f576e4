-- Purpose: delete periods of unique keys that have passed.
-- Parameters: ?1 now, ?2 how many at most.
-- Columns out: none.
-- Concurrency: in the turn to sweep. It passes over rows that others have locked, and over periods whose keys they have locked: an
--   enqueue that has read the clock before a period's end must find it. Keys that no job holds go too, some time after they
--   were last looked at.
declare
  @now bigint = ?1,
  @n int = ?2;
declare @windows table (queue varbinary(255) not null, unique_key varbinary(512) not null, primary key (queue, unique_key));
insert into @windows (queue, unique_key)
select top (@n) u.queue, u.unique_key
from dibs_unique_window c with (index (by_end), forceseek)
join dibs_unique_window u with (rowlock, updlock, readpast, readcommittedlock, forceseek) on u.queue = c.queue and u.unique_key = c.unique_key
where c.until <= @now and u.until <= @now and (
  exists (
    select 1
    from dibs_key k with (rowlock, updlock, readpast, readcommittedlock, forceseek)
    where k.queue = u.queue and k.unique_key = u.unique_key
  )
  or not exists (select 1 from dibs_key e where e.queue = u.queue and e.unique_key = u.unique_key)
)
option (force order, loop join, maxdop 1);
delete from u
from @windows i
join dibs_unique_window u with (rowlock, updlock, forceseek) on u.queue = i.queue and u.unique_key = i.unique_key
option (force order, loop join, maxdop 1);
declare @keys table (queue varbinary(255) not null, unique_key varbinary(512) not null, primary key (queue, unique_key));
insert into @keys (queue, unique_key)
select top (@n) k.queue, k.unique_key
from dibs_key c with (index (by_check), forceseek)
join dibs_key k with (rowlock, updlock, readpast, readcommittedlock, forceseek) on k.queue = c.queue and k.unique_key = c.unique_key
where c.check_at <= @now and k.check_at <= @now
option (force order, loop join, maxdop 1);
update k
set check_at = @now + 60000000
from @keys i
join dibs_key k with (rowlock, updlock, forceseek) on k.queue = i.queue and k.unique_key = i.unique_key
where exists (select 1 from dibs_job j where j.id = k.job and j.unique_held = 1)
option (force order, loop join, maxdop 1);
delete from k
from @keys i
join dibs_key k with (rowlock, updlock, forceseek) on k.queue = i.queue and k.unique_key = i.unique_key
where k.check_at <= @now
option (force order, loop join, maxdop 1);
