-- Purpose: find counts that differ from the rows, groups that have free places but wait, and
--   steps and edges without a job: traces of rows that were deleted or inserted by hand.
-- Parameters: none.
-- Columns out: finding, one line each; queue; state whose count is wrong, 'group', 'step', 'edge', or 'payload' where
--   payloads have a table; how much the count lacks, or the job of an edge.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing. A repair reads it in its write transaction, which has written its own changes
--   of counts before.
with counted as (
  select queue, 'waiting' as state, sum(waiting) as n from dibs_tally group by queue
  union all
  select queue, 'blocked' as state, sum(blocked) as n from dibs_tally group by queue
  union all
  select queue, 'running' as state, sum(running) as n from dibs_tally group by queue
  union all
  select queue, 'completed' as state, sum(completed) as n from dibs_tally group by queue
  union all
  select queue, 'dead' as state, sum(dead) as n from dibs_tally group by queue
  union all
  select queue, 'cancelled' as state, sum(cancelled) as n from dibs_tally group by queue
), present as (
  select
    j.queue,
    case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state,
    count(*) as n
  from dibs_job j
  group by 1, 2
  union all
  select queue, state, count(*)
  from dibs_finished
  group by queue, state
), state (name) as (
  select 'waiting' union all
  select 'blocked' union all
  select 'running' union all
  select 'completed' union all
  select 'dead' union all
  select 'cancelled'
), member as (
  select
    j.queue,
    j.group_key,
    coalesce(l.places, q.group_limit) as places,
    sum(j.gate in (0, 3)) as held,
    sum(j.gate = 0) as unclaimed,
    sum(j.gate = 1) as blocked
  from dibs_job j
  join dibs_queue q on q.name = j.queue
  left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
  where j.group_key is not null
  group by j.queue, j.group_key, coalesce(l.places, q.group_limit)
)
select
  concat('queue ', q.name, ': counted ', coalesce(c.n, 0), ' ', s.name, ', there are ', coalesce(p.n, 0)) as finding,
  q.name as queue,
  s.name as state,
  coalesce(p.n, 0) - coalesce(c.n, 0) as lacks
from dibs_queue q
cross join state s
left join counted c on c.queue = q.name and c.state = s.name
left join present p on p.queue = q.name and p.state = s.name
where coalesce(c.n, 0) <> coalesce(p.n, 0)
union all
select
  concat('queue ', m.queue, ', group ', m.group_key, ': ', m.held, ' jobs hold a place, ', m.unclaimed, ' of them unclaimed, the limit is ', m.places),
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
  concat('queue ', m.queue, ', group ', m.group_key, ': ', m.held, ' of ', m.places, ' places held, ', m.blocked, ' jobs blocked and nobody told'),
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
select concat(count(*), ' steps of jobs that are gone'), '', 'step', 0
from dibs_step s
where not exists (select 1 from dibs_job j where j.id = s.job) and not exists (select 1 from dibs_finished f where f.id = s.job)
having count(*) > 0
union all
select distinct concat('job ', e.child, ': its edges are left, and it is gone'), '', 'edge', e.child
from dibs_edge e
where not exists (select 1 from dibs_job j where j.id = e.child)
  and not exists (select 1 from dibs_finished f where f.id = e.child)
  and not exists (select 1 from dibs_ended_list)
