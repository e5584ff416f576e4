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
  select queue, 'blocked', sum(blocked) from dibs_tally group by queue
  union all
  select queue, 'running', sum(running) from dibs_tally group by queue
  union all
  select queue, 'completed', sum(completed) from dibs_tally group by queue
  union all
  select queue, 'dead', sum(dead) from dibs_tally group by queue
  union all
  select queue, 'cancelled', sum(cancelled) from dibs_tally group by queue
), present as (
  select
    queue,
    case when token is not null then 'running' when gate in (1, 5) then 'blocked' else 'waiting' end as state,
    count(*) as n
  from dibs_job
  group by 1, 2
  union all
  select queue, state, count(*)
  from dibs_finished
  group by queue, state
), state (name) as (
  values ('waiting'), ('blocked'), ('running'), ('completed'), ('dead'), ('cancelled')
), groups as (
  select
    j.queue,
    j.group_key,
    coalesce(l.places, q.group_limit) as places,
    count(*) filter (where j.gate in (0, 3)) as held,
    count(*) filter (where j.gate in (0, 3) and j.token is null) as unclaimed,
    count(*) filter (where j.gate = 1) as blocked
  from dibs_job j
  join dibs_queue q on q.name = j.queue
  left join dibs_group_limit l on l.queue = j.queue and l.group_key = j.group_key
  where j.group_key is not null
  group by j.queue, j.group_key
)
select
  format('queue %s: counted %d %s, there are %d', q.name, coalesce(c.n, 0), s.name, coalesce(p.n, 0)) as finding,
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
  format('queue %s, group %s: %d jobs hold a place, %d of them unclaimed, the limit is %d', queue, group_key, held, unclaimed, places),
  queue,
  'group',
  0
from groups
where held > places and unclaimed > 0
union all
select
  format('queue %s, group %s: %d of %d places held, %d jobs blocked and nobody told', queue, group_key, held, places, blocked),
  queue,
  'group',
  0
from groups
where held < places and blocked > 0 and not exists (
    select 1
    from dibs_rate r
    where r.queue = groups.queue and r.group_key = groups.group_key and r.held_until is not null
  )
union all
select format('%d steps of jobs that are gone', count(*)), '', 'step', 0
from dibs_step s
where not exists (select 1 from dibs_job j where j.id = s.job) and not exists (select 1 from dibs_finished f where f.id = s.job)
having count(*) > 0
union all
select distinct format('job %d: its edges are left, and it is gone', e.child), '', 'edge', e.child
from dibs_edge e
where not exists (select 1 from dibs_job j where j.id = e.child)
  and not exists (select 1 from dibs_finished f where f.id = e.child)
  and not exists (select 1 from dibs_ended_list)
