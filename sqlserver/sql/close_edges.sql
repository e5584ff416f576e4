-- Purpose: note that edges were looked at: the parent has ended, or the child has.
-- Parameters: ?1 a JSON array of pairs: child, parent; ?2 stage.
-- Columns out: none.
-- Concurrency: in the transaction that has read the edges.
declare
  @edges nvarchar(max) = ?1,
  @stage tinyint = ?2;
update e
set stage = @stage
from openjson(@edges) with (child bigint '$[0]', parent bigint '$[1]') l
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = l.child and e.parent = l.parent
option (force order, loop join, maxdop 1);
