-- Purpose: find the jobs that wait for some that have ended.
-- Parameters: ?1 a JSON array of ids of those that have ended; ?2 how many edges.
-- Columns out: child, parent, need; state of the parent, or null if it is gone; the job because of which that was cancelled;
--   whether the parent is kept for others.
-- Concurrency: in the transaction that then closes the edges (close_edges.sql).
select
  e.child,
  e.parent,
  e.need,
  f.state,
  f.cause,
  coalesce(f.followed, 0)
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (by_parent) on e.parent = i.id and e.stage = 1
left join dibs_finished f on f.id = e.parent
limit ?2
