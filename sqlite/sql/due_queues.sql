-- Purpose: find the queues from which a claim may find jobs now.
-- Parameters: ?1 a JSON array of queues, ?2 now, ?3 a JSON array of kinds or null for all.
-- Columns out: queue. Also one whose jobs a limit, a rate or a group's places keep waiting.
-- Concurrency: a plain read of the transaction's snapshot; locks nothing.
-- As in lanes.sql, two index seeks per priority in use, up to the first with a due job. One statement
--   for all queues: for 100 queues, one for each took 20 times as long.
with recursive asked (queue) as (
  select name
  from dibs_queue
  where name in (select value from json_each(?1)) and not paused
), lane (queue, priority) as (
  select
    queue,
    (
      select min(j.priority)
      from dibs_job j
      where j.queue = asked.queue and j.gate = 0 and j.token is null
    )
  from asked
  union all
  select
    queue,
    (
      select min(j.priority)
      from dibs_job j
      where j.queue = lane.queue and j.gate = 0 and j.token is null and j.priority > lane.priority
    )
  from lane
  where priority is not null
    and not exists (
      select 1
      from dibs_job j
      where j.queue = lane.queue and j.gate = 0 and j.token is null and j.priority = lane.priority
        and j.run_at <= ?2
        and (?3 is null or j.kind in (select value from json_each(?3)))
    )
)
select queue
from asked
where exists (
    select 1
    from dibs_job j
    where j.queue = asked.queue and j.gate = 2 and j.run_at <= ?2
  )
  or exists (
    select 1
    from dibs_rate r
    where r.queue = asked.queue and r.held_until <= ?2
  )
union
select queue
from lane
where priority is not null
  and exists (
    select 1
    from dibs_job j
    where j.queue = lane.queue and j.gate = 0 and j.token is null and j.priority = lane.priority
      and j.run_at <= ?2
      and (?3 is null or j.kind in (select value from json_each(?3)))
  )
