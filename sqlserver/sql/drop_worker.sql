-- Purpose: remove the entries of workers that have stopped, and those of workers that were lost
--   long ago.
-- Parameters: ?1 JSON array of ids in hexadecimal or null, ?2 remove all that were last seen before.
-- Columns out: none.
-- Concurrency: each worker writes its own row; it passes over those of lost ones that others have locked.
declare
  @stopped nvarchar(max) = ?1,
  @before bigint = ?2;
delete from w
from openjson(@stopped) with (id varchar(36) '$') i
join dibs_worker w with (rowlock, updlock, forceseek) on w.id = convert(binary(16), replace(i.id, '-', ''), 2)
option (force order, loop join, maxdop 1);
declare @lost table (id binary(16) primary key);
insert into @lost (id)
select top (1000) w.id
from dibs_worker c with (index (seen), forceseek)
join dibs_worker w with (rowlock, updlock, readpast, readcommittedlock, forceseek) on w.id = c.id
where c.seen_at < @before and w.seen_at < @before
option (force order, loop join, maxdop 1);
delete from w
from @lost i
join dibs_worker w with (rowlock, updlock, forceseek) on w.id = i.id
option (force order, loop join, maxdop 1);
