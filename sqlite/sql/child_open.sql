-- Purpose: find the open edges of jobs that have ended themselves.
-- Parameters: ?1 a JSON array of ids; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
select
  e.child,
  e.parent
from json_each(?1) i
cross join dibs_edge e indexed by dibs_edge_open on e.child = i.value and e.stage = 1
limit ?2
