-- Purpose: delete live jobs that have ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it.
declare
  @ids nvarchar(max) = ?1;
delete from j
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
