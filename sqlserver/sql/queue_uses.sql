-- Purpose: find what needs a queue that is to be deleted.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: a job that has not ended, a job that has, a unique key that is held for a period, and
--   when the period ends; null where there is none.
-- Concurrency: in the turn to delete the queue, so nothing comes in between.
declare
  @queue varbinary(255) = ?1,
  @now bigint = ?2;
select
  (select top (1) j.id from dibs_job j with (index (lane), forceseek) where j.queue = @queue),
  (select top (1) f.id from dibs_finished f with (index (by_time), forceseek) where f.queue = @queue),
  w.unique_key,
  w.until
from (select 1 as one) o
outer apply (
  select top (1) u.unique_key, u.until
  from dibs_unique_window u
  where u.queue = @queue and u.until > @now
  order by u.unique_key
) w;
