-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 key.
-- Columns out: id of a job; it may have been deleted. At most one row.
-- Concurrency: a plain read of two indexes.
select id
from dibs_job
where queue = ?1 and unique_key = ?2 and unique_held = 1
union all
select job
from dibs_unique_window
where queue = ?1 and unique_key = ?2
  and until > (
    select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
    from dibs_clock
  )
limit 1
