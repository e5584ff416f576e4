-- Purpose: count every queue.
-- Parameters: ?1 where to stop counting scheduled jobs of a queue, plus one;
--   ?2 length of the window in minutes.
-- Columns out: queue, paused, waiting, scheduled, blocked, running, completed, dead,
--   cancelled, oldest age in microseconds, window in microseconds, enqueued, claimed,
--   succeeded, failed, wait and run times in microseconds, summed over the window.
-- Concurrency: a plain read of one snapshot; locks nothing. Counts come from tally; of
--   the ready index only each priority's first entry and at most ?1 future ones are read.
with recursive clock (now, first) as materialized (
  select t.now, t.now / 60000000 - ?2 + 1
  from (
    select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000) as now
    from dibs_clock
  ) t
), lane (queue, priority) as materialized (
  select q.name, (
    select min(j.priority)
    from dibs_job j
    where j.queue = q.name and j.gate = 0 and j.token is null
  )
  from dibs_queue q
  union all
  select lane.queue, (
    select min(j.priority)
    from dibs_job j
    where j.queue = lane.queue and j.gate = 0 and j.token is null and j.priority > lane.priority
  )
  from lane
  where lane.priority is not null
), counts as materialized (
  select
    t.queue,
    sum(t.waiting) as waiting,
    sum(t.blocked) as blocked,
    sum(t.running) as running,
    sum(t.completed) as completed,
    sum(t.dead) as dead,
    sum(t.cancelled) as cancelled,
    sum(t.enqueued) filter (where t.minute >= clock.first) as enqueued,
    sum(t.claimed) filter (where t.minute >= clock.first) as claimed,
    sum(t.succeeded) filter (where t.minute >= clock.first) as succeeded,
    sum(t.failed) filter (where t.minute >= clock.first) as failed,
    cast(min(total(t.wait_us) filter (where t.minute >= clock.first), 900000000000000000) as integer) as wait_us,
    cast(min(total(t.run_us) filter (where t.minute >= clock.first), 900000000000000000) as integer) as run_us
  from clock, dibs_tally t
  group by t.queue
)
select
  q.name,
  q.paused,
  coalesce(c.waiting, 0),
  (
    select count(*)
    from (
      select 1
      from (
        select 1
        from lane l
        cross join dibs_job j
        where l.queue = q.name
          and j.queue = q.name and j.gate = 0 and j.token is null and j.priority = l.priority
          and j.run_at > clock.now
        limit ?1
      )
      union all
      select 1
      from (
        select 1
        from dibs_job j
        where j.queue = q.name and j.gate = 2 and j.run_at > clock.now
        limit ?1
      )
      limit ?1
    )
  ),
  coalesce(c.blocked, 0),
  coalesce(c.running, 0),
  coalesce(c.completed, 0),
  coalesce(c.dead, 0),
  coalesce(c.cancelled, 0),
  max(0, coalesce(clock.now - (
    select min((
      select j.run_at
      from dibs_job j
      where j.queue = q.name and j.gate = 0 and j.token is null and j.priority = l.priority
      order by j.run_at
      limit 1
    ))
    from lane l
    where l.queue = q.name and l.priority is not null
  ), 0)),
  max(1000000, clock.now - max(clock.first * 60000000, q.created_at)),
  coalesce(c.enqueued, 0),
  coalesce(c.claimed, 0),
  coalesce(c.succeeded, 0),
  coalesce(c.failed, 0),
  coalesce(c.wait_us, 0),
  coalesce(c.run_us, 0)
from clock, dibs_queue q
left join counts c on c.queue = q.name
order by q.name
