-- Purpose: delete rows of the list of ended jobs.
-- Parameters: ?1 a JSON array of the rows' ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the jobs.
declare
  @ids nvarchar(max) = ?1;
delete from l
from openjson(@ids) with (id bigint '$') i
join dibs_ended_list l with (rowlock, updlock, forceseek) on l.id = i.id
option (force order, loop join, maxdop 1);
