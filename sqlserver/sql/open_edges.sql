-- Purpose: find the jobs that wait for some that have ended.
-- Parameters: ?1 a JSON array of ids of those that have ended; ?2 how many edges.
-- Columns out: child, parent, need; state of the parent, or null if it is gone; the job because of which that was cancelled;
--   whether the parent is kept for others.
-- Concurrency: in the transaction that then closes the edges (close_edges.sql).
declare
  @ids nvarchar(max) = ?1,
  @n int = ?2;
select top (@n)
  e.child,
  e.parent,
  e.need,
  f.state,
  f.cause,
  coalesce(f.followed, 0)
from openjson(@ids) v
cross apply (select convert(int, v.[key]) as nth, convert(bigint, v.value) as id) i
join dibs_edge e with (index (by_parent), forceseek) on e.parent = i.id and e.stage = 1
left join dibs_finished f on f.id = e.parent
order by i.nth, e.child
option (force order, loop join, maxdop 1);
