-- Purpose: find live jobs among those that another statement did not return: it skipped
--   them because they were locked.
-- Parameters: $1 ids, $2 whether to leave out running jobs.
-- Columns out: id.
-- Concurrency: a plain read.
select id
from dibs.job
where id = any ($1::bigint[]) and (not $2 or token is null)
order by id
