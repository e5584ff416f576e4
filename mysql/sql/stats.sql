-- Purpose: count every queue.
-- Parameters: ?1 where to stop counting scheduled jobs of a queue, plus one;
--   ?2 length of the window in minutes.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: a plain read of one snapshot; locks nothing. Counts come from tally.
with counts as (
  select
    t.queue,
    sum(t.waiting) as waiting,
    sum(t.blocked) as blocked,
    sum(t.running) as running,
    sum(t.completed) as completed,
    sum(t.dead) as dead,
    sum(t.cancelled) as cancelled,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.enqueued end) as enqueued,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.claimed end) as claimed,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.succeeded end) as succeeded,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.failed end) as failed,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.wait_us end) as wait_us,
    sum(case when t.minute >= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1 then t.run_us end) as run_us
  from dibs_tally t
  group by t.queue
), lane as (
  select j.queue, j.priority, min(j.run_at) as first
  from dibs_job j force index (lane)
  where j.gate = 0
  group by j.queue, j.priority
)
select
  q.name,
  q.paused,
  coalesce(c.waiting, 0),
  least(?1, (
    select count(*)
    from dibs_job j force index (lane)
    where j.queue = q.name and j.gate in (0, 2) and j.run_at > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
  )),
  coalesce(c.blocked, 0),
  coalesce(c.running, 0),
  coalesce(c.completed, 0),
  coalesce(c.dead, 0),
  coalesce(c.cancelled, 0),
  greatest(0, coalesce(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - (
    select min(l.first)
    from lane l
    where l.queue = q.name
  ), 0)),
  greatest(1000000, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - greatest((timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 60000000 - ?2 + 1) * 60000000, q.created_at)),
  coalesce(c.enqueued, 0),
  coalesce(c.claimed, 0),
  coalesce(c.succeeded, 0),
  coalesce(c.failed, 0),
  least(coalesce(c.wait_us, 0), 900000000000000000),
  least(coalesce(c.run_us, 0), 900000000000000000)
from dibs_queue q
left join counts c on c.queue = q.name
order by q.name
