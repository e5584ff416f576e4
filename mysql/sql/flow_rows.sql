-- Purpose: count the jobs that a job comes after, those that come after it, and those of its flow.
-- Parameters: ?1 id; ?2 how many rows there are at most; ?3 how many jobs are counted at most: of those before, of those
--   after, and of the flow of those that have not ended and of each final state.
-- Columns out: before, after or flow; queue; kind; state, or unneeded; how many jobs; the
--   least id of these.
-- Concurrency: a plain read of one snapshot; locks nothing. It reads each of the jobs, by its id or by the
--   index of its flow. If more have not ended than are counted, half of the count are the oldest, which run
--   first, and half the newest, which come after others.
with o (flow) as (
  select coalesce((select flow from dibs_job where id = ?1), (select flow from dibs_finished where id = ?1))
), e (part, id) as (
  select 'before', b.parent
  from (select parent from dibs_edge where child = ?1 limit ?3) b
  union all
  select 'after', a.child
  from (select child from dibs_edge force index (by_parent) where parent = ?1 limit ?3) a
), live (id) as (
  select a.id
  from (
    select c.id, row_number() over (order by c.id) as nth
    from (select id from dibs_job force index (flow) where flow = (select flow from o) order by id limit ?3) c
  ) a
  where a.nth <= ?3 - ?3 div 2
  union
  select b.id
  from (
    select c.id, row_number() over (order by c.id desc) as nth
    from (select id from dibs_job force index (flow) where flow = (select flow from o) order by id desc limit ?3) c
  ) b
  where b.nth <= ?3 div 2
), ended (id) as (
  select c.id
  from (select id from dibs_finished force index (by_flow) where flow = (select flow from o) and state = 'completed' limit ?3) c
  union all
  select d.id
  from (select id from dibs_finished force index (by_flow) where flow = (select flow from o) and state = 'dead' limit ?3) d
  union all
  select c.id
  from (select id from dibs_finished force index (by_flow) where flow = (select flow from o) and state = 'cancelled' limit ?3) c
), jobs (part, id) as (
  select
    part,
    id
  from e
  union all
  select
    'flow',
    id
  from live
  union all
  select
    'flow',
    id
  from ended
)
select
  m.part,
  m.queue,
  m.kind,
  m.state,
  count(*),
  min(m.id)
from (
  select
    a.part,
    j.id,
    j.queue,
    j.kind,
    case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state
  from jobs a
  straight_join dibs_job j force index (primary) on j.id = a.id
  union all
  select
    a.part,
    f.id,
    f.queue,
    f.kind,
    case when f.state = 'cancelled' and (select c.state from dibs_finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
  from jobs a
  straight_join dibs_finished f force index (primary) on f.id = a.id
) m
group by m.part, m.queue, m.kind, m.state
order by count(*) desc, m.queue, m.kind, m.state, m.part
limit ?2
