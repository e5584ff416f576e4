-- Purpose: find the edges of jobs that have ended themselves, but those that are open (child_open.sql).
-- Parameters: ?1 a JSON array of ids; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
-- The index has only what is still to be noted, however many edges a job has.
select
  e.child,
  e.parent
from json_each(?1) i
cross join dibs_edge e indexed by dibs_edge_closed on e.child = i.value and e.stage = 0
limit ?2
