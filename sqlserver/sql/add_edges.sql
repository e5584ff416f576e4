-- Purpose: note which jobs come after which.
-- Parameters: ?1 a JSON array of objects: child, parent, need.
-- Columns out: none.
-- Concurrency: in the transaction that inserts the children.
declare
  @edges nvarchar(max) = ?1;
insert into dibs_edge (child, parent, need, stage)
select
  l.child,
  l.parent,
  l.need,
  1
from openjson(@edges) with (child bigint '$.child', parent bigint '$.parent', need varchar(16) '$.need') l;
