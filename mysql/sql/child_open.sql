-- Purpose: find the open edges of jobs that have ended themselves.
-- Parameters: ?1 a JSON array of ids; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
select
  e.child,
  e.parent
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (open_edge) on e.child = i.id and e.stage = 1
limit ?2
