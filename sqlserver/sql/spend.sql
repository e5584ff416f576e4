-- Purpose: write what the rates of groups, or of a queue, have saved up after starts.
-- Parameters: ?1 a JSON array of [group or an empty text for the queue itself, full_ns (package bucket),
--   when the next job may start]; ?2 queue.
-- Columns out: none.
-- Concurrency: in a turn.
declare
  @groups nvarchar(max) = ?1,
  @queue varbinary(255) = ?2;
declare @spent table (name varbinary(255) primary key, full_ns bigint not null, not_before bigint not null);
insert into @spent (name, full_ns, not_before)
select convert(varbinary(255), convert(varchar(255), i.name collate Latin1_General_100_BIN2_UTF8)), i.full_ns, i.not_before
from openjson(@groups) with (name nvarchar(255) '$[0]', full_ns bigint '$[1]', not_before bigint '$[2]') i;
update r
set
  full_ns = i.full_ns,
  not_before = case when r.group_key = 0x then i.not_before else r.not_before end
from @spent i
join dibs_rate r with (rowlock, updlock, forceseek) on r.queue = @queue and r.group_key = i.name
option (force order, loop join, maxdop 1);
insert into dibs_rate (queue, group_key, full_ns, not_before)
select @queue, i.name, i.full_ns, i.not_before
from @spent i
where not exists (select 1 from dibs_rate r where r.queue = @queue and r.group_key = i.name);
