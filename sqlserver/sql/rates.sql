-- Purpose: read what the rates of groups, or of a queue, have saved up.
-- Parameters: ?1 queue, ?2 a JSON array of groups, an empty one for the queue itself.
-- Columns out: group; n, per in microseconds, burst (of a group), full_ns (package bucket). No row of a group of which nothing is known.
-- Concurrency: in a turn.
declare
  @queue varbinary(255) = ?1,
  @groups nvarchar(max) = ?2;
select r.group_key, r.n, r.per, r.burst, r.full_ns
from openjson(@groups) v
cross apply (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) as name) n
join dibs_rate r with (forceseek) on r.queue = @queue and r.group_key = n.name
option (force order, loop join, maxdop 1);
