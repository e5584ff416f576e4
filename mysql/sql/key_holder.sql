-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 key.
-- Columns out: id of a job; it may have been deleted. At most one row.
-- Concurrency: a plain read of two indexes.
select j.id
from dibs_key k
straight_join dibs_job j force index (primary) on j.id = k.job
where k.queue = ?1 and k.unique_key = ?2 and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key
union all
select u.job
from dibs_unique_window u
where u.queue = ?1 and u.unique_key = ?2 and u.until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
limit 1
