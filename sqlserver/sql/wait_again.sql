-- Purpose: have jobs that still wait for others wait again for some that are put back.
-- Parameters: ?1 a JSON array of ids of those that are put back.
-- Columns out: none.
-- Concurrency: in the transaction that puts them back.
declare
  @ids nvarchar(max) = ?1;
update e
set stage = 1
from openjson(@ids) with (id bigint '$') i
join dibs_edge p with (index (by_parent), forceseek) on p.parent = i.id and p.stage = 0
join dibs_job j on j.id = p.child and j.gate = 5
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = p.child and e.parent = p.parent
option (force order, loop join, maxdop 1);
