-- Purpose: find single jobs that break an invariant; repairable.sql finds wrong counts and
--   groups.
-- Parameters: none.
-- Columns out: finding, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
-- The errors column may hold any text after a change by hand, and JSON functions fail on
-- text that is no JSON; "case" evaluates them only where it is.
with kept as (
  select id, errors, case
    when not json_valid(errors) then false
    when json_type(errors) <> 'array' then false
    else not exists (
      select 1
      from json_each(errors) e
      where json_type(errors, e.fullkey || '.attempt') is not 'integer'
        or json_type(errors, e.fullkey || '.at') is not 'text'
        or json_type(errors, e.fullkey || '.error') is not 'text'
    )
  end as readable
  from (
    select id, errors from dibs_job where errors is not null
    union all
    select id, errors from dibs_finished where errors is not null
  )
)
select format('job %d: token and lease do not go together', id) as what
from dibs_job
where (token is null) <> (lease_until is null)
union all
select format('job %d: its lease is longer than any that a store gives', id)
from dibs_job
where lease_until > 90000000000 + (
  select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
  from dibs_clock
)
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
from kept
where case when readable then json_array_length(errors) > 10
  or exists (
    select 1
    from json_each(errors) e
    where octet_length(e.value ->> 'error') > 4096
  ) end
union all
select format('job %d: its kept errors are damaged', id)
from kept
where not readable
union all
select format('job %d: its queue %s has no settings', j.id, j.queue)
from dibs_job j
where not exists (
  select 1
  from dibs_queue q
  where q.name = j.queue
)
union all
select format('job %d: waits for job %d, which is gone', e.child, e.parent)
from dibs_job j
cross join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and not exists (select 1 from dibs_job p where p.id = e.parent)
  and not exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select format('job %d: waits for job %d, which has ended', e.child, e.parent)
from dibs_job j
cross join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select format('job %d: waits for job %d, which does not know it', e.child, e.parent)
from dibs_job j
cross join dibs_edge e on e.child = j.id and e.stage = 1
cross join dibs_job p on p.id = e.parent and p.followed = 0
where j.gate = 5
  and not exists (select 1 from dibs_ended_list)
union all
select format('job %d: waits for others, and for none', j.id)
from dibs_job j
where j.gate = 5
  and not exists (select 1 from dibs_edge e where e.child = j.id and e.stage = 1)
  and not exists (select 1 from dibs_ended_list)
union all
select format('job %d: does not wait, but for job %d', e.child, e.parent)
from dibs_edge e
cross join dibs_job j on j.id = e.child and j.gate <> 5
where e.stage = 1
union all
select format('job %d: its followers need it, but it may be deleted', f.id)
from dibs_edge e
cross join dibs_finished f on f.id = e.parent and f.followed = 0
where e.stage < 2
  and not exists (select 1 from dibs_ended_list)
