-- Purpose: find the job that holds a unique key.
-- Parameters: $1 queue, $2 key.
-- Columns out: id of a job; it may have been deleted. At most one row.
-- Concurrency: a plain read of two indexes.
select j.id
from dibs.job j
where j.queue = $1 and j.unique_key = $2 and j.unique_held
union all
select w.job
from dibs.unique_window w
where w.queue = $1 and w.unique_key = $2 and w.until > statement_timestamp() and w.job is not null
limit 1
