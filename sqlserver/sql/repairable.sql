-- Purpose: find counts that differ from the rows, groups that have free places but wait, and
--   steps and edges without a job: traces of rows that were deleted or inserted by hand.
-- Parameters: none.
-- Columns out: finding, one line each; queue; state whose count is wrong, 'group', 'step', 'edge', or 'payload' where
--   payloads have a table; how much the count lacks, or the job of an edge.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing. A repair reads it in its write transaction, which has written its own changes
--   of counts before.
with counted as (
  select t.queue, s.state, sum(s.n) as n
  from dibs_tally t
  cross apply (
    values
      ('waiting', t.waiting),
      ('blocked', t.blocked),
      ('running', t.running),
      ('completed', t.completed),
      ('dead', t.dead),
      ('cancelled', t.cancelled)
  ) s (state, n)
  group by t.queue, s.state
), present as (
  select p.queue, p.state, count(*) as n
  from (
    select
      j.queue,
      case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end collate Latin1_General_100_BIN2_UTF8 as state
    from dibs_job j
    union all
    select f.queue, f.state
    from dibs_finished f
  ) p
  group by p.queue, p.state
), state (name) as (
  select v.name
  from (values ('waiting'), ('blocked'), ('running'), ('completed'), ('dead'), ('cancelled')) v (name)
), member as (
  select
    j.queue,
    j.group_key,
    coalesce(l.places, q.group_limit) as places,
    sum(case when j.gate in (0, 3) then 1 else 0 end) as held,
    sum(case when j.gate = 0 then 1 else 0 end) as unclaimed,
    sum(case when j.gate = 1 then 1 else 0 end) as blocked
  from dibs_job j
  join dibs_queue q on q.name = j.queue
  left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
  where j.group_key is not null
  group by j.queue, j.group_key, coalesce(l.places, q.group_limit)
)
select
  convert(varbinary(max), 'queue ') + q.name
    + convert(varbinary(max), concat(': counted ', coalesce(c.n, 0), ' ', s.name, ', there are ', coalesce(p.n, 0))) as finding,
  q.name as queue,
  s.name as state,
  coalesce(p.n, 0) - coalesce(c.n, 0) as lacks
from dibs_queue q
cross join state s
left join counted c on c.queue = q.name and c.state = s.name
left join present p on p.queue = q.name and p.state = s.name collate Latin1_General_100_BIN2_UTF8
where coalesce(c.n, 0) <> coalesce(p.n, 0)
union all
select
  convert(varbinary(max), 'queue ') + m.queue + convert(varbinary(max), ', group ') + m.group_key
    + convert(varbinary(max), concat(': ', m.held, ' jobs hold a place, ', m.unclaimed, ' of them unclaimed, the limit is ', m.places)),
  m.queue,
  'group',
  0
from member m
where m.held > m.places and m.unclaimed > 0 and not exists (
    select 1
    from dibs_wake w
    where w.queue = m.queue and w.group_key = m.group_key
  )
union all
select
  convert(varbinary(max), 'queue ') + m.queue + convert(varbinary(max), ', group ') + m.group_key
    + convert(varbinary(max), concat(': ', m.held, ' of ', m.places, ' places held, ', m.blocked, ' jobs blocked and nobody told')),
  m.queue,
  'group',
  0
from member m
where m.held < m.places and m.blocked > 0 and not exists (
    select 1
    from dibs_rate r
    where r.queue = m.queue and r.group_key = m.group_key and r.held_until is not null
  )
  and not exists (
    select 1
    from dibs_wake w
    where w.queue = m.queue and w.group_key = m.group_key
  )
union all
select convert(varbinary(max), concat(count(*), ' steps of jobs that are gone')), 0x, 'step', 0
from dibs_step s
where not exists (select 1 from dibs_job j where j.id = s.job) and not exists (select 1 from dibs_finished f where f.id = s.job)
having count(*) > 0
union all
select distinct convert(varbinary(max), concat('job ', e.child, ': its edges are left, and it is gone')), 0x, 'edge', e.child
from dibs_edge e
where not exists (select 1 from dibs_job j where j.id = e.child)
  and not exists (select 1 from dibs_finished f where f.id = e.child)
  and not exists (select 1 from dibs_ended_list);
