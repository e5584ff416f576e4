-- Purpose: note which jobs come after which.
-- Parameters: ?1 a JSON array of objects: child, parent, need.
-- Columns out: none.
-- Concurrency: in the transaction that inserts the children.
insert into dibs_edge (child, parent, need, stage)
select
  value ->> 'child',
  value ->> 'parent',
  value ->> 'need',
  1
from jsonb_each(?1)
