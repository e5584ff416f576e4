-- Purpose: read what somebody has changed, newest first.
-- Parameters: ?1 how many.
-- Columns out: at, who, did, what, n.
-- Concurrency: a plain read.
declare
  @n int = ?1;
select top (@n) at, who, did, what, n
from dibs_audit
order by id desc;
