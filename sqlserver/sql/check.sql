-- Purpose: find single jobs that break an invariant; repairable.sql finds wrong counts and
--   groups.
-- Parameters: none.
-- Columns out: finding, one line each; no row means that all is well.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing.
-- The errors column may hold any text after a change by hand.
declare @now bigint = datediff_big(microsecond, '19700101', sysutcdatetime());
with raw (id, errors) as (
  select id, errors from dibs_job where errors is not null
  union all
  select id, errors from dibs_finished where errors is not null
), kept (id, errors, readable) as (
  select
    r.id,
    case when isjson(r.errors) = 1 and left(ltrim(r.errors), 1) = '[' then r.errors else '[]' end,
    case when isjson(r.errors) = 1 and left(ltrim(r.errors), 1) = '[' and not exists (
        select 1
        from openjson(case when isjson(r.errors) = 1 and left(ltrim(r.errors), 1) = '[' then r.errors else '[]' end) with (
          attempt nvarchar(max) '$.attempt',
          at nvarchar(max) '$.at',
          error nvarchar(max) '$.error'
        ) x
        where x.attempt is null or x.at is null or x.error is null
      ) then 1 else 0 end
  from raw r
)
select convert(varbinary(max), concat('job ', j.id, ': token and lease do not go together')) as what
from dibs_job j
where j.token is null and j.lease_until is not null or j.token is not null and j.lease_until is null
union all
select convert(varbinary(max), concat('job ', j.id, ': its lease is longer than any that a store gives'))
from dibs_job j
where j.lease_until > 90000000000 + @now
union all
select convert(varbinary(max), concat('job ', j.id, ': running, but in gate ', j.gate))
from dibs_job j
where j.token is not null and j.gate <> 3
union all
select convert(varbinary(max), concat('job ', j.id, ': not running, but in gate 3'))
from dibs_job j
where j.token is null and j.gate = 3
union all
select convert(varbinary(max), concat('job ', j.id, ': has no group, but is in gate ', j.gate))
from dibs_job j
where j.group_key is null and j.gate in (1, 2)
union all
select convert(varbinary(max), concat('job ', j.id, ': running, but in no claim'))
from dibs_job j
left join dibs_claim c on c.token = j.token
where j.token is not null and (c.token is null or not exists (select 1 from openjson(c.ids) with (id bigint '$') i where i.id = j.id))
union all
select convert(varbinary(max), concat('job ', j.id, ': its claim is looked at ', c.check_at - j.lease_until, ' us after its lease ends'))
from dibs_job j
join dibs_claim c on c.token = j.token
where c.check_at > case when j.lease_until > 1000000 + @now then j.lease_until else 1000000 + @now end
union all
select convert(varbinary(max), concat('job ', j.id, ': live and finished'))
from dibs_job j
join dibs_finished f on f.id = j.id
union all
select convert(varbinary(max), concat('job ', j.id, ': ', j.attempt - j.excused, ' attempts count, ', j.max_attempts, ' are allowed'))
from dibs_job j
where j.attempt - j.excused > j.max_attempts or (j.attempt - j.excused >= j.max_attempts and j.token is null)
union all
select convert(varbinary(max), concat('job ', min(j.id), ': unique key held by ', count(*), ' jobs'))
from dibs_job j
where j.unique_held = 1
group by j.queue, j.unique_key
having count(*) > 1
union all
select convert(varbinary(max), concat('job ', j.id, ': holds a unique key, but has none'))
from dibs_job j
where j.unique_held = 1 and j.unique_key is null
union all
select convert(varbinary(max), concat('job ', j.id, ': holds a unique key, and another job is noted with it'))
from dibs_job j
left join dibs_key k on k.queue = j.queue and k.unique_key = j.unique_key and k.job = j.id
where j.unique_held = 1 and j.unique_key is not null and k.job is null
union all
select convert(varbinary(max), concat('job ', k.id, ': ', e.n, ' errors kept, the longest is ', e.longest, ' bytes'))
from kept k
cross apply (
  select count(*) as n, max(datalength(convert(varchar(max), x.error collate Latin1_General_100_BIN2_UTF8))) as longest
  from openjson(k.errors) with (error nvarchar(max) '$.error') x
) e
where k.readable = 1 and (e.n > 10 or e.longest > 4096)
union all
select convert(varbinary(max), concat('job ', k.id, ': its kept errors are damaged'))
from kept k
where k.readable = 0
union all
select convert(varbinary(max), concat('job ', j.id, ': its queue ')) + j.queue + convert(varbinary(max), ' has no settings')
from dibs_job j
where not exists (
  select 1
  from dibs_queue q
  where q.name = j.queue
)
union all
select convert(varbinary(max), concat('job ', e.child, ': waits for job ', e.parent, ', which is gone'))
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and not exists (select 1 from dibs_job p where p.id = e.parent)
  and not exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select convert(varbinary(max), concat('job ', e.child, ': waits for job ', e.parent, ', which has ended'))
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
where j.gate = 5
  and exists (select 1 from dibs_finished f where f.id = e.parent)
  and not exists (select 1 from dibs_ended_list)
union all
select convert(varbinary(max), concat('job ', e.child, ': waits for job ', e.parent, ', which does not know it'))
from dibs_job j
join dibs_edge e on e.child = j.id and e.stage = 1
join dibs_job p on p.id = e.parent and p.followed = 0
where j.gate = 5
  and not exists (select 1 from dibs_ended_list)
union all
select convert(varbinary(max), concat('job ', j.id, ': waits for others, and for none'))
from dibs_job j
where j.gate = 5
  and not exists (select 1 from dibs_edge e where e.child = j.id and e.stage = 1)
  and not exists (select 1 from dibs_ended_list)
union all
select convert(varbinary(max), concat('job ', e.child, ': does not wait, but for job ', e.parent))
from dibs_edge e
join dibs_job j on j.id = e.child and j.gate <> 5
where e.stage = 1
union all
select convert(varbinary(max), concat('job ', f.id, ': its followers need it, but it may be deleted'))
from dibs_edge e
join dibs_finished f on f.id = e.parent and f.followed = 0
where e.stage < 2
  and not exists (select 1 from dibs_ended_list);
