-- Purpose: find the edges of jobs that have ended themselves, but those that are open (child_open.sql).
-- Parameters: ?1 a JSON array of ids; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
select
  e.child,
  e.parent
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (open_edge) on e.child = i.id and e.stage = 0
limit ?2
