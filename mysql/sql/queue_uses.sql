-- Purpose: find what needs a queue that is to be deleted.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: a job that has not ended, a job that has, a unique key that is held for a period, and
--   when the period ends; null where there is none.
-- Concurrency: in the turn to delete the queue, so nothing comes in between.
select
  coalesce(
    (select j.id from dibs_job j force index (lane) where j.queue = ?1 and j.gate = 0 limit 1),
    (select j.id from dibs_job j force index (lane) where j.queue = ?1 and j.gate = 1 limit 1),
    (select j.id from dibs_job j force index (lane) where j.queue = ?1 and j.gate = 2 limit 1),
    (select j.id from dibs_job j force index (lane) where j.queue = ?1 and j.gate = 3 limit 1),
    (select j.id from dibs_job j force index (lane) where j.queue = ?1 and j.gate = 5 limit 1)
  ),
  (select f.id from dibs_finished f where f.queue = ?1 limit 1),
  w.unique_key,
  w.until
from (select 1 as one) o
left join (
  select u.unique_key, u.until
  from dibs_unique_window u
  where u.queue = ?1 and u.until > ?2
  order by u.unique_key
  limit 1
) w on true
