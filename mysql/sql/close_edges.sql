-- Purpose: note that edges were looked at: the parent has ended, or the child has.
-- Parameters: ?1 a JSON array of pairs: child, parent; ?2 stage.
-- Columns out: none.
-- Concurrency: in the transaction that has read the edges.
update json_table(?1, '$[*]' columns (child bigint path '$[0]', parent bigint path '$[1]')) l
straight_join dibs_edge e force index (primary) on e.child = l.child and e.parent = l.parent
set e.stage = ?2
