-- Purpose: find the edges of jobs that have ended themselves, but those that are open (child_open.sql).
-- Parameters: ?1 a JSON array of ids; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
declare
  @ids nvarchar(max) = ?1,
  @n int = ?2;
select top (@n)
  e.child,
  e.parent
from openjson(@ids) v
cross apply (select convert(int, v.[key]) as nth, convert(bigint, v.value) as id) i
join dibs_edge e with (index (open_edge), forceseek) on e.child = i.id and e.stage = 0
order by i.nth, e.parent
option (force order, loop join, maxdop 1);
