-- Purpose: find what must not be.
-- Parameters: none.
-- Columns out: finding, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
with sums as (
    select
        queue,
        coalesce(sum(waiting), 0) as waiting,
        coalesce(sum(blocked), 0) as blocked,
        coalesce(sum(running), 0) as running,
        coalesce(sum(completed), 0) as completed,
        coalesce(sum(dead), 0) as dead,
        coalesce(sum(cancelled), 0) as cancelled
    from dibs.tally
    group by queue
), live as (
    select
        queue,
        count(*) filter (where token is null and gate <> 1) as waiting,
        count(*) filter (where token is null and gate = 1) as blocked,
        count(*) filter (where token is not null) as running
    from dibs.job
    group by queue
), ended as (
    select
        queue,
        count(*) filter (where state = 'completed') as completed,
        count(*) filter (where state = 'dead') as dead,
        count(*) filter (where state = 'cancelled') as cancelled
    from dibs.finished
    group by queue
), groups as (
    select
        j.queue,
        j.group_key,
        coalesce(l.places, q.group_limit) as places,
        count(*) filter (where j.gate in (0, 3)) as held,
        count(*) filter (where j.gate in (0, 3) and j.token is null) as unclaimed,
        count(*) filter (where j.gate = 1) as blocked,
        exists (select from dibs.wake w where w.queue = j.queue and w.group_key = j.group_key)
            or exists (select from dibs.wake_list w where w.queue = j.queue and j.group_key = any (w.groups)) as woken
    from dibs.job j
    join dibs.queue q on q.name = j.queue
    left join dibs.group_limit l on l.queue = j.queue and l.group_key = j.group_key
    where j.group_key is not null
    group by j.queue, j.group_key, l.places, q.group_limit
)
select format('queue %s: counted %s waiting, %s blocked, %s running, there are %s, %s, %s', q.name,
    coalesce(s.waiting, 0), coalesce(s.blocked, 0), coalesce(s.running, 0),
    coalesce(l.waiting, 0), coalesce(l.blocked, 0), coalesce(l.running, 0)) as finding
from dibs.queue q
left join sums s on s.queue = q.name
left join live l on l.queue = q.name
where (coalesce(s.waiting, 0), coalesce(s.blocked, 0), coalesce(s.running, 0))
    <> (coalesce(l.waiting, 0), coalesce(l.blocked, 0), coalesce(l.running, 0))
union all
select format('queue %s: counted %s completed, %s dead, %s cancelled, there are %s, %s, %s', q.name,
    coalesce(s.completed, 0), coalesce(s.dead, 0), coalesce(s.cancelled, 0),
    coalesce(e.completed, 0), coalesce(e.dead, 0), coalesce(e.cancelled, 0))
from dibs.queue q
left join sums s on s.queue = q.name
left join ended e on e.queue = q.name
where (coalesce(s.completed, 0), coalesce(s.dead, 0), coalesce(s.cancelled, 0))
    <> (coalesce(e.completed, 0), coalesce(e.dead, 0), coalesce(e.cancelled, 0))
union all
select format('queue %s, group %s: %s jobs hold a place, %s of them unclaimed, the limit is %s', queue, group_key, held, unclaimed, places)
from groups
where held > places and unclaimed > 0 and not woken
union all
select format('queue %s, group %s: %s of %s places held, %s jobs blocked and nobody told', queue, group_key, held, places, blocked)
from groups
where held < places and blocked > 0 and not woken
union all
select format('job %s: token and lease do not go together', id)
from dibs.job
where (token is null) <> (lease_until is null)
union all
select format('job %s: running, but in gate %s', id, gate)
from dibs.job
where token is not null and not (gate in (0, 3))
union all
select format('job %s: not running, but in gate 3', id)
from dibs.job
where token is null and gate = 3
union all
select format('job %s: has no group, but is in gate %s', id, gate)
from dibs.job
where group_key is null and gate in (1, 2)
union all
select format('job %s: running, but in no claim', j.id)
from dibs.job j
where j.token is not null
    and not exists (select from dibs.claim c where c.token = j.token and j.id = any (c.ids))
union all
select format('job %s: its claim is looked at %s after its lease ends', j.id, c.check_at - greatest(j.lease_until, statement_timestamp()))
from dibs.job j
join dibs.claim c on c.token = j.token
where c.check_at > case when j.lease_until > statement_timestamp() then j.lease_until else statement_timestamp() + interval '1 second' end
union all
select format('job %s: live and finished', j.id)
from dibs.job j
join dibs.finished f on f.id = j.id
union all
select format('job %s: %s attempts count, %s are allowed', id, attempt - excused, max_attempts)
from dibs.job
where (attempt - excused) > max_attempts or ((attempt - excused) >= max_attempts and token is null)
union all
select format('job %s: unique key held by more than one job', min(id))
from dibs.job
where unique_held
group by queue, unique_key
having count(*) > 1
union all
select format('job %s: %s errors kept', id, jsonb_array_length(errors))
from dibs.job
where jsonb_array_length(errors) > 10
union all
select format('job %s: its queue %s has no settings', id, queue)
from dibs.job j
where not exists (select from dibs.queue q where q.name = j.queue)
