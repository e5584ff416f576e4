-- Purpose: find those of some jobs that have not ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id; whether it waits for others. In the array's order.
-- Concurrency: after follow.sql, in its transaction: a job that is live now is noted as followed.
declare
  @ids nvarchar(max) = ?1;
select
  j.id,
  case when j.gate = 5 then 1 else 0 end
from openjson(@ids) v
cross apply (select convert(int, v.[key]) as nth, convert(bigint, v.value) as id) i
join dibs_job j with (forceseek) on j.id = i.id
order by i.nth
option (force order, loop join, maxdop 1);
