-- Purpose: note which jobs come after which.
-- Parameters: ?1 a JSON array of objects: child, parent, need.
-- Columns out: none.
-- Concurrency: in the transaction that inserts the children.
insert into dibs_edge (child, parent, need, stage)
select
  l.child,
  l.parent,
  l.need,
  1
from json_table(?1, '$[*]' columns (
  child bigint path '$.child',
  parent bigint path '$.parent',
  need varchar(16) character set utf8mb4 path '$.need'
)) l
