-- Purpose: read what somebody has changed, newest first.
-- Parameters: ?1 how many.
-- Columns out: at, who, did, what, n.
-- Concurrency: a plain read.
select at, who, did, what, n
from dibs_audit
order by id desc
limit ?1
