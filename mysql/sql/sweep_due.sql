-- Purpose: find what a sweep has to do in the queues: jobs that become due for their groups, and finished
--   jobs that are no longer kept.
-- Parameters: ?1 now.
-- Columns out: queue; state of the finished jobs, or null for jobs of groups; only jobs that finished up
--   to this time, 0 for jobs of groups.
-- Concurrency: a plain read of one snapshot.
-- A few index seeks for each queue: the range of an exists would not end at the times, as these are of another table.
select
  q.name,
  null,
  0
from dibs_queue q
where (
    select j.run_at
    from dibs_job j force index (later)
    where j.place = 2 and j.queue = q.name
    order by j.run_at
    limit 1
  ) <= ?1
union all
select
  q.name,
  'completed',
  ?1 - greatest(1, q.keep_completed)
from dibs_queue q
where (
    select f.finished_at
    from dibs_finished f force index (by_time)
    where f.queue = q.name and f.state = 'completed' and f.followed = 0
    order by f.finished_at
    limit 1
  ) <= ?1 - greatest(1, q.keep_completed)
union all
select
  q.name,
  'dead',
  ?1 - greatest(1, q.keep_dead)
from dibs_queue q
where (
    select f.finished_at
    from dibs_finished f force index (by_time)
    where f.queue = q.name and f.state = 'dead' and f.followed = 0
    order by f.finished_at
    limit 1
  ) <= ?1 - greatest(1, q.keep_dead)
union all
select
  q.name,
  'cancelled',
  ?1 - greatest(1, q.keep_cancelled)
from dibs_queue q
where (
    select f.finished_at
    from dibs_finished f force index (by_time)
    where f.queue = q.name and f.state = 'cancelled' and f.followed = 0
    order by f.finished_at
    limit 1
  ) <= ?1 - greatest(1, q.keep_cancelled)
