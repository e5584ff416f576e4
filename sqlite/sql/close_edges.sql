-- Purpose: note that edges were looked at: the parent has ended, or the child has.
-- Parameters: ?1 a JSON array of pairs: child, parent; ?2 stage.
-- Columns out: none.
-- Concurrency: in the transaction that has read the edges.
update dibs_edge
set stage = ?2
from (
  select
    value ->> 0 as child,
    value ->> 1 as parent
  from jsonb_each(?1)
) l
where dibs_edge.child = l.child and dibs_edge.parent = l.parent
