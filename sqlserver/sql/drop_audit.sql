-- Purpose: forget all but the newest changes.
-- Parameters: ?1 how many to keep.
-- Columns out: none.
-- Concurrency: waits for nobody: it passes over entries that others have locked, for they delete them, too.
declare
  @keep bigint = ?1;
delete from x
from (
  select top (1000) a.id
  from dibs_audit a with (rowlock, updlock, readpast, readcommittedlock, forceseek)
  where a.id <= (select max(id) from dibs_audit) - @keep
  order by a.id
) x;
