-- Purpose: find jobs that have ended and that some wait for.
-- Parameters: ?1 a JSON array of ids of those that wait.
-- Columns out: id.
-- Concurrency: in the transaction that has made them wait.
declare
  @ids nvarchar(max) = ?1;
select distinct e.parent
from openjson(@ids) with (id bigint '$') i
join dibs_edge e with (index (open_edge), forceseek) on e.child = i.id and e.stage = 1
where not exists (select 1 from dibs_job j where j.id = e.parent)
option (force order, loop join, maxdop 1);
