-- Purpose: find what must not be.
-- Parameters: none.
-- Columns out: what, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
with sums as (
  select
    queue,
    sum(waiting) as waiting,
    sum(blocked) as blocked,
    sum(running) as running,
    sum(completed) as completed,
    sum(dead) as dead,
    sum(cancelled) as cancelled
  from dibs_tally
  group by queue
), live as (
  select
    queue,
    count(*) filter (where token is null and gate <> 1) as waiting,
    count(*) filter (where token is null and gate = 1) as blocked,
    count(*) filter (where token is not null) as running
  from dibs_job
  group by queue
), ended as (
  select
    queue,
    count(*) filter (where state = 'completed') as completed,
    count(*) filter (where state = 'dead') as dead,
    count(*) filter (where state = 'cancelled') as cancelled
  from dibs_finished
  group by queue
), groups as (
  select
    j.queue,
    j.group_key,
    coalesce(l.places, q.group_limit) as places,
    count(*) filter (where j.gate in (0, 3)) as held,
    count(*) filter (where j.gate in (0, 3) and j.token is null) as unclaimed,
    count(*) filter (where j.gate = 1) as blocked,
    exists (
      select 1
      from dibs_wake w
      where w.queue = j.queue and w.group_key = j.group_key
    ) as woken
  from dibs_job j
  join dibs_queue q on q.name = j.queue
  left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
  where j.group_key is not null
  group by j.queue, j.group_key
)
select format('queue %s: counted %d waiting, %d blocked, %d running, there are %d, %d, %d', q.name,
  coalesce(s.waiting, 0), coalesce(s.blocked, 0), coalesce(s.running, 0),
  coalesce(l.waiting, 0), coalesce(l.blocked, 0), coalesce(l.running, 0)) as what
from dibs_queue q
left join sums s on s.queue = q.name
left join live l on l.queue = q.name
where (coalesce(s.waiting, 0), coalesce(s.blocked, 0), coalesce(s.running, 0))
  <> (coalesce(l.waiting, 0), coalesce(l.blocked, 0), coalesce(l.running, 0))
union all
select format('queue %s: counted %d completed, %d dead, %d cancelled, there are %d, %d, %d', q.name,
  coalesce(s.completed, 0), coalesce(s.dead, 0), coalesce(s.cancelled, 0),
  coalesce(e.completed, 0), coalesce(e.dead, 0), coalesce(e.cancelled, 0))
from dibs_queue q
left join sums s on s.queue = q.name
left join ended e on e.queue = q.name
where (coalesce(s.completed, 0), coalesce(s.dead, 0), coalesce(s.cancelled, 0))
  <> (coalesce(e.completed, 0), coalesce(e.dead, 0), coalesce(e.cancelled, 0))
union all
select format('queue %s, group %s: %d jobs hold a place, %d of them unclaimed, the limit is %d', queue, group_key, held, unclaimed, places)
from groups
where held > places and unclaimed > 0 and not woken
union all
select format('queue %s, group %s: %d of %d places held, %d jobs blocked and nobody told', queue, group_key, held, places, blocked)
from groups
where held < places and blocked > 0 and not woken
union all
select format('job %d: token and lease do not go together', id)
from dibs_job
where (token is null) <> (lease_until is null)
union all
select format('job %d: running, but in gate %d', id, gate)
from dibs_job
where token is not null and gate not in (0, 3)
union all
select format('job %d: not running, but in gate 3', id)
from dibs_job
where token is null and gate = 3
union all
select format('job %d: has no group, but is in gate %d', id, gate)
from dibs_job
where group_key is null and gate in (1, 2)
union all
select format('job %d: running, but in no claim', j.id)
from dibs_job j
where j.token is not null
  and (j.token, j.id) not in (
    select c.token, i.value
    from dibs_claim c, json_each(c.ids) i
  )
union all
select format('job %d: its claim is looked at %d us after its lease ends', j.id, c.check_at - j.lease_until)
from dibs_job j
join dibs_claim c on c.token = j.token
where c.check_at > j.lease_until
union all
select format('job %d: live and finished', j.id)
from dibs_job j
join dibs_finished f on f.id = j.id
union all
select format('job %d: %d attempts count, %d are allowed', id, attempt - excused, max_attempts)
from dibs_job
where attempt - excused > max_attempts or (attempt - excused >= max_attempts and token is null)
union all
select format('job %d: unique key held by %d jobs', min(id), count(*))
from dibs_job
where unique_held = 1
group by queue, unique_key
having count(*) > 1
union all
select format('job %d: holds a unique key, but has none', id)
from dibs_job
where unique_held = 1 and unique_key is null
union all
select format('job %d: %d errors kept, the longest is %d bytes', id, json_array_length(errors), (
  select max(octet_length(e.value ->> 'error'))
  from json_each(errors) e
))
from (
  select id, errors from dibs_job where errors is not null
  union all
  select id, errors from dibs_finished where errors is not null
)
where json_array_length(errors) > 10
  or exists (
    select 1
    from json_each(errors) e
    where octet_length(e.value ->> 'error') > 4096
  )
union all
select format('job %d: its queue %s has no settings', j.id, j.queue)
from dibs_job j
where not exists (
  select 1
  from dibs_queue q
  where q.name = j.queue
)
