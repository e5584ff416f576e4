-- Purpose: note how long the rates of groups hold up their jobs.
-- Parameters: ?1 a JSON array of [group, when the jobs that hold its places may start, when the
--   group is to be settled anew or null]; ?2 queue.
-- Columns out: none.
-- Concurrency: in the turn to admit, which has given the groups' places.
declare
  @groups nvarchar(max) = ?1,
  @queue varbinary(255) = ?2;
declare @holds table (name varbinary(255) primary key, not_before bigint not null, held_until bigint null);
insert into @holds (name, not_before, held_until)
select convert(varbinary(255), convert(varchar(255), i.name collate Latin1_General_100_BIN2_UTF8)), i.not_before, i.held_until
from openjson(@groups) with (name nvarchar(255) '$[0]', not_before bigint '$[1]', held_until bigint '$[2]') i;
update r
set
  not_before = i.not_before,
  held_until = i.held_until
from @holds i
join dibs_rate r with (rowlock, updlock, forceseek) on r.queue = @queue and r.group_key = i.name
option (force order, loop join, maxdop 1);
insert into dibs_rate (queue, group_key, not_before, held_until)
select @queue, i.name, i.not_before, i.held_until
from @holds i
where not exists (select 1 from dibs_rate r where r.queue = @queue and r.group_key = i.name);
