-- Purpose: find what a sweep has to do in the queues: jobs that become due for their groups, and finished
--   jobs that are no longer kept.
-- Parameters: ?1 now.
-- Columns out: queue; state of the finished jobs, or null for jobs of groups; only jobs that finished up
--   to this time, 0 for jobs of groups.
-- Concurrency: a plain read of one snapshot.
-- A few index seeks for each queue: the range of an exists would not end at the times, as these are of another table.
declare
  @now bigint = ?1;
select
  q.name,
  convert(varchar(16), null),
  convert(bigint, 0)
from dibs_queue q
where exists (
    select 1
    from dibs_job j with (index (later), forceseek)
    where j.place = 2 and j.queue = q.name and j.run_at <= @now
  )
union all
select
  q.name,
  s.state,
  @now - s.keep
from dibs_queue q
cross apply (
  values
    ('completed', q.keep_completed),
    ('dead', q.keep_dead),
    ('cancelled', q.keep_cancelled)
) k (state, keep)
cross apply (select k.state, case when k.keep < 1 then 1 else k.keep end as keep) s
cross apply (
  select top (1) f.finished_at
  from dibs_finished f with (index (by_time), forceseek)
  where f.queue = q.name and f.state = s.state collate Latin1_General_100_BIN2_UTF8 and f.followed = 0
  order by f.finished_at
) f
where f.finished_at <= @now - s.keep;
