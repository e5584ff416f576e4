-- Purpose: tell in which groups jobs are blocked.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group.
-- Concurrency: none; a lookup for each group.
declare
  @queue varbinary(255) = ?1,
  @groups nvarchar(max) = ?2;
select n.name
from openjson(@groups) with (name nvarchar(255) '$') i
cross apply (select convert(varbinary(255), convert(varchar(255), i.name collate Latin1_General_100_BIN2_UTF8)) as name) n
where exists (
    select 1
    from dibs_job b with (index (place), forceseek)
    where b.queue = @queue and b.place = 1 and b.group_key = n.name
  );
