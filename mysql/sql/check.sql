-- Purpose: find single jobs that break an invariant; repairable.sql finds wrong counts and
--   groups.
-- Parameters: none.
-- Columns out: finding, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
-- The errors column may hold any text after a change by hand.
with raw (id, errors) as (
  select id, convert(errors using utf8mb4) from dibs_job where errors is not null
  union all
  select id, convert(errors using utf8mb4) from dibs_finished where errors is not null
), kept (id, errors, readable) as (
  select r.id, r.errors, coalesce(json_valid(r.errors), 0) and json_type(r.errors) = 'ARRAY' and json_length(r.errors) = json_length(json_extract(r.errors, '$[*].attempt'))
    and json_length(r.errors) = json_length(json_extract(r.errors, '$[*].at')) and json_length(r.errors) = json_length(json_extract(r.errors, '$[*].error'))
  from raw r
)
select concat('job ', j.id, ': token and lease do not go together') as what
from dibs_job j
where (j.token is null) <> (j.lease_until is null)
union all
select concat('job ', j.id, ': its lease is longer than any that a store gives')
from dibs_job j
where j.lease_until > 90000000000 + timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
union all
select concat('job ', j.id, ': running, but in gate ', j.gate)
from dibs_job j
where j.token is not null and j.gate <> 3
union all
select concat('job ', j.id, ': not running, but in gate 3')
from dibs_job j
where j.token is null and j.gate = 3
union all
select concat('job ', j.id, ': has no group, but is in gate ', j.gate)
from dibs_job j
where j.group_key is null and j.gate in (1, 2)
union all
select concat('job ', j.id, ': running, but in no claim')
from dibs_job j
left join dibs_claim c on c.token = j.token
where j.token is not null and (c.token is null or not json_contains(convert(c.ids using utf8mb4), cast(j.id as char)))
union all
select concat('job ', j.id, ': its claim is looked at ', c.check_at - j.lease_until, ' us after its lease ends')
from dibs_job j
join dibs_claim c on c.token = j.token
where c.check_at > greatest(j.lease_until, 1000000 + timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
union all
select concat('job ', j.id, ': live and finished')
from dibs_job j
join dibs_finished f on f.id = j.id
union all
select concat('job ', j.id, ': ', j.attempt - j.excused, ' attempts count, ', j.max_attempts, ' are allowed')
from dibs_job j
where j.attempt - j.excused > j.max_attempts or (j.attempt - j.excused >= j.max_attempts and j.token is null)
union all
select concat('job ', min(j.id), ': unique key held by ', count(*), ' jobs')
from dibs_job j
where j.unique_held = 1
group by j.queue, j.unique_key
having count(*) > 1
union all
select concat('job ', j.id, ': holds a unique key, but has none')
from dibs_job j
where j.unique_held = 1 and j.unique_key is null
union all
select concat('job ', j.id, ': holds a unique key, and another job is noted with it')
from dibs_job j
left join dibs_key k on k.queue = j.queue and k.unique_key = j.unique_key and k.job = j.id
where j.unique_held = 1 and j.unique_key is not null and k.job is null
union all
select concat('job ', k.id, ': ', json_length(k.errors), ' errors kept, the longest is ', (
  select max(length(x.error))
  from json_table(case when k.readable then k.errors else '[]' end, '$[*]' columns (error longtext character set utf8mb4 path '$.error')) x
), ' bytes')
from kept k
where k.readable and (json_length(k.errors) > 10 or exists (
    select 1
    from json_table(case when k.readable then k.errors else '[]' end, '$[*]' columns (error longtext character set utf8mb4 path '$.error')) x
    where length(x.error) > 4096
  ))
union all
select concat('job ', k.id, ': its kept errors are damaged')
from kept k
where not coalesce(k.readable, 0)
union all
select concat('job ', j.id, ': its queue ', j.queue, ' has no settings')
from dibs_job j
where not exists (
  select 1
  from dibs_queue q
  where q.name = j.queue
)
union all
select concat('job ', e.child, ': waits for job ', e.parent, ', which is gone')
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and not exists (select 1 from dibs_job p where p.id = e.parent)
  and not exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select concat('job ', e.child, ': waits for job ', e.parent, ', which has ended')
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select concat('job ', e.child, ': waits for job ', e.parent, ', which does not know it')
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
join dibs_job p on p.id = e.parent and p.followed = 0
where j.gate = 5
  and not exists (select 1 from dibs_ended_list)
union all
select concat('job ', j.id, ': waits for others, and for none')
from dibs_job j
where j.gate = 5
  and not exists (select 1 from dibs_edge e where e.child = j.id and e.stage = 1)
  and not exists (select 1 from dibs_ended_list)
union all
select concat('job ', e.child, ': does not wait, but for job ', e.parent)
from dibs_edge e
join dibs_job j on j.id = e.child and j.gate <> 5
where e.stage = 1
union all
select concat('job ', f.id, ': its followers need it, but it may be deleted')
from dibs_edge e
join dibs_finished f on f.id = e.parent and f.followed = 0
where e.stage < 2
  and not exists (select 1 from dibs_ended_list)
