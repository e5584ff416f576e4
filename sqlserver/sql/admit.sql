-- Purpose: give free places of groups to their first blocked jobs.
-- Parameters: ?1 queue, ?2 a JSON array of [group, how many, a JSON array of turns to take over, each [turn, admitted], or null in a queue
--   that is not fair, the turn after these, number of the admission].
-- Columns out: the group of each job.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
declare
  @queue varbinary(255) = ?1,
  @groups nvarchar(max) = ?2;
declare @admitted table (
  id bigint primary key,
  name varbinary(255) not null,
  nth int not null,
  turns nvarchar(max) null,
  turn bigint null,
  admission bigint null
);
insert into @admitted (id, name, nth, turns, turn, admission)
select
  x.id,
  n.name,
  row_number() over (partition by n.name order by x.priority, x.run_at, x.id),
  g.turns,
  g.turn,
  g.admission
from openjson(@groups) with (
  name nvarchar(255) '$[0]',
  room int '$[1]',
  turns nvarchar(max) '$[2]' as json,
  turn bigint '$[3]',
  admission bigint '$[4]'
) g
cross apply (select convert(varbinary(255), convert(varchar(255), g.name collate Latin1_General_100_BIN2_UTF8)) as name) n
cross apply (
  select top (g.room) j.id, c.priority, c.run_at
  from dibs_job c with (index (place), forceseek)
  join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = c.id
  where c.queue = @queue and c.place = 1 and c.group_key = n.name
    and j.group_key = n.name and j.place = 1
  order by c.priority, c.run_at, c.id
) x
option (force order, loop join, maxdop 1);
update j
set
  gate = 0,
  turn = case
    when a.turns is null then j.turn
    else coalesce(
      convert(bigint, json_value(a.turns, concat('$[', a.nth - 1, '][0]'))),
      a.turn + a.nth - 1 - (select count(*) from openjson(a.turns) t)
    )
  end,
  admitted = case
    when a.turns is null then j.admitted
    else coalesce(convert(bigint, json_value(a.turns, concat('$[', a.nth - 1, '][1]'))), a.admission)
  end
output inserted.group_key
from @admitted a
join dibs_job j with (rowlock, updlock, forceseek) on j.id = a.id
option (force order, loop join, maxdop 1);
