-- Purpose: read the limits that groups have of their own.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group, places; no row of a group without a limit of its own.
-- Concurrency: a plain read.
declare
  @queue varbinary(255) = ?1,
  @groups nvarchar(max) = ?2;
select l.group_key, l.places
from openjson(@groups) v
cross apply (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) as name) n
join dibs_group_limit l with (forceseek) on l.queue = @queue and l.group_key = n.name
option (force order, loop join, maxdop 1);
