-- Purpose: tell which jobs are live, for those that a statement skipped because they
--   were locked.
-- Parameters: $1 ids, $2 whether only those not running.
-- Columns out: id.
-- Concurrency: a plain read.
select id
from dibs.job
where id = any ($1::bigint[]) and (not $2 or token is null)
order by id
