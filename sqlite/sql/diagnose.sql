-- Purpose: find jobs, leases, schedules and upkeep that somebody should look at.
-- Parameters: none.
-- Columns out: name of the finding; queue, schedule or what upkeep is late; id of a job; two
--   counts; age in microseconds; detail. The names:
--   dead: jobs that died in the last hour, by queue and last error: the newest, how many, of up to how
--     many that were read of the queue
--   leases: a running or waiting job whose leases have ended again and again: how often
--   cancel: a running job that somebody has cancelled, and since when it runs
--   late: upkeep that workers should have done
--   schedule: a schedule whose tick is over a minute late
--   awaited: jobs of a queue and a kind (detail) that others come after, and that no worker has: the first
--     of these others, how many they are, and the same again if there may be more
--   kept: ended jobs of a queue that should have been deleted for 10 minutes or more, and are kept for those
--     that come after them: the newest, how many, of up to how many that were read of each state
--   clock_ahead: the file's time is ahead of the system's, whose clock was put back
-- Concurrency: one snapshot; locks nothing. Reads at most 1,000 dead jobs of a queue, where many queues
--   have some fewer of each, 10,000 in all, 1,000 running ones, 2,000
--   waiting ones, 10,000 rows of the tally, 200 followers of a queue and 1,000 in all with up to 3 jobs that each
--   waits for, 100 ended jobs of a queue and state that are past retention and about 3,000 in all, 100 rows of
--   ended_list with up to 10 jobs of each, and one entry of an index for each queue and state.
with clock as materialized (
  select
    max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000) as now,
    now - cast(round(unixepoch('subsec') * 1000) as integer) * 1000 as ahead
  from dibs_clock
), share as materialized (
  select max(1, min(1000, 10000 / max(1, count(*)))) as n
  from dibs_queue q
  where exists (
    select 1
    from dibs_finished d indexed by dibs_finished_by_time
    where d.queue = q.name and d.state = 'dead' and d.finished_at > (select now from clock) - 3600000000
  )
), ended as materialized (
  select
    f.id,
    f.queue,
    f.finished_at,
    substr(case when json_valid(f.errors) then coalesce(json_extract(f.errors, '$[#-1].error'), '') else '' end, 1, 300) as error
  from dibs_queue q
  cross join dibs_finished f
  where f.id in (
    select d.id
    from dibs_finished d indexed by dibs_finished_by_time
    where d.queue = q.name and d.state = 'dead' and d.finished_at > (select now from clock) - 3600000000
    order by d.finished_at desc
    limit (select n from share)
  )
), running as materialized (
  select
    j.id,
    j.queue,
    j.worker,
    j.errors,
    j.cancel_requested,
    j.claimed_at
  from dibs_claim c
  cross join json_each(c.ids) i
  cross join dibs_job j on j.id = i.value and j.token = c.token
  limit 1000
), first as materialized (
  select
    j.id,
    j.queue,
    j.worker,
    j.errors
  from dibs_queue q
  cross join dibs_job j indexed by dibs_job_ready
  where j.queue = q.name and j.gate = 0 and j.token is null and j.run_at <= (select now from clock)
  limit 2000
), leases as (
  select
    l.id,
    l.queue,
    l.worker,
    (select count(*) from json_each(case when json_valid(l.errors) then l.errors else '[]' end) e where e.type = 'object' and json_extract(e.value, '$.error') = 'lease expired') as n
  from (
    select id, queue, worker, errors from running
    union all
    select id, queue, worker, errors from first where errors is not null
  ) l
), following as materialized (
  select max(1, min(200, 1000 / max(1, count(*)))) as n
  from dibs_queue q
  where exists (
    select 1
    from dibs_job j indexed by dibs_job_after
    where j.queue = q.name and j.gate = 5
  )
), follower as materialized (
  select j.id, q.name as queue
  from dibs_queue q
  cross join dibs_job j
  where j.id in (
    select f.id
    from dibs_job f indexed by dibs_job_after
    where f.queue = q.name and f.gate = 5
    limit (select n from following)
  )
  limit 1000
), awaited as (
  select p.queue, p.kind, min(w.id) as first, count(distinct w.id) as n
  from follower w
  cross join dibs_job p
  where p.id in (
    select e.parent
    from dibs_edge e indexed by dibs_edge_open
    where e.child = w.id and e.stage = 1
    order by e.parent
    limit 3
  ) and p.token is null
  group by p.queue, p.kind
), keeping as materialized (
  select max(1, min(100, 1000 / max(1, count(*)))) as n
  from dibs_queue
), past as materialized (
  select
    f.id,
    f.queue,
    f.followed,
    f.finished_at + s.keep as since
  from (
    select name, 'completed' as state, keep_completed as keep from dibs_queue
    union all
    select name, 'dead', keep_dead from dibs_queue
    union all
    select name, 'cancelled', keep_cancelled from dibs_queue
  ) s
  cross join dibs_finished f
  where f.id in (
    select o.id
    from dibs_finished o indexed by dibs_finished_by_time
    where o.queue = s.name and o.state = s.state and o.finished_at < (select now from clock) - 600000000 - s.keep
    order by o.finished_at, o.id
    limit (select n from keeping)
  )
), late as (
  select 'claims' as what, count(*) as n, min(check_at) as since
  from (
    select token, ids, check_at
    from dibs_claim
    where check_at < (select now from clock) - 30000000
    order by check_at
    limit 100
  ) c
  where exists (
      select 1
      from json_each(c.ids) i
      cross join dibs_job j on j.id = i.value and j.token = c.token
    )
  union all
  select 'tally', count(*), null
  from (select 1 from dibs_tally limit 10000)
  having count(*) = 10000
  union all
  select 'periods', 0, min(until) + 600000000
  from dibs_unique_window
  union all
  select 'history', count(*), min(since)
  from past
  where followed = 0
  union all
  select 'flows', count(*), min(l.at)
  from (
    select (
      select max(f.finished_at)
      from (select value from json_each(r.ids) limit 10) i
      cross join dibs_finished f on f.id = i.value
    ) as at
    from (
      select id, ids
      from dibs_ended_list
      order by id
      limit 100
    ) r
  ) l
  where l.at < (select now from clock) - 60000000
)
select 'dead', queue, max(id), count(*), (select n from share), (select now from clock) - max(finished_at), error
from ended
group by queue, error
union all
select 'leases', queue, id, n, 0, 0, coalesce(worker, '')
from leases
where n >= 3
union all
select 'cancel', queue, id, 0, 0, (select now from clock) - claimed_at, coalesce(worker, '')
from running
where cancel_requested = 1 and claimed_at < (select now from clock) - 60000000
union all
select 'late', what, 0, n, 0, coalesce((select now from clock) - since, 0), ''
from late
where n > 0 and since is null or since < (select now from clock)
union all
select 'schedule', name, 0, 0, 0, (select now from clock) - next_at, ''
from dibs_schedule
where next_at < (select now from clock) - 60000000
union all
select 'awaited', queue, first, n, case when (select max(c.n) from (select count(*) as n from follower group by queue) c) >= (select n from following) then n else 0 end, 0, kind
from awaited
union all
select 'kept', queue, max(id), count(*), (select n from keeping), (select now from clock) - min(since), ''
from past
where followed = 1
group by queue
union all
select 'clock_ahead', '', 0, 0, 0, ahead, ''
from clock
where ahead > 1000000
