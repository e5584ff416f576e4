-- Purpose: find the job that holds a unique key.
-- Parameters: ?1 queue, ?2 key.
-- Columns out: id of a job; it may have been deleted. At most one row.
-- Concurrency: a plain read of two indexes.
declare
  @queue varbinary(255) = ?1,
  @key varbinary(512) = ?2;
select top (1) x.id
from (
  select j.id, 0 as nth
  from dibs_key k
  join dibs_job j on j.id = k.job
  where k.queue = @queue and k.unique_key = @key
    and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key
  union all
  select u.job, 1
  from dibs_unique_window u
  where u.queue = @queue and u.unique_key = @key and u.until > datediff_big(microsecond, '19700101', sysutcdatetime())
) x
order by x.nth;
