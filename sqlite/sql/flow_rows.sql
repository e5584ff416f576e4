-- Purpose: count the jobs that a job comes after, those that come after it, and those of its flow.
-- Parameters: ?1 id; ?2 how many rows there are at most.
-- Columns out: before, after or flow; queue; kind; state, or unneeded; how many jobs; the
--   least id of these.
-- Concurrency: a plain read of one snapshot; locks nothing. It reads each of the jobs, by its id or by the
--   index of its flow.
with e (part, id) as materialized (
  select
    'before',
    b.parent
  from dibs_edge b
  where b.child = ?1
  union all
  select
    'after',
    a.child
  from dibs_edge a
  where a.parent = ?1
), o (flow) as materialized (
  select coalesce((select flow from dibs_job where id = ?1), (select flow from dibs_finished where id = ?1))
), live (part, id, queue, kind, token, gate) as (
  select
    e.part,
    j.id,
    j.queue,
    j.kind,
    j.token,
    j.gate
  from e
  cross join dibs_job j on j.id = e.id
  union all
  select
    'flow',
    j.id,
    j.queue,
    j.kind,
    j.token,
    j.gate
  from o
  cross join dibs_job j on j.flow = o.flow
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
    part,
    id,
    queue,
    kind,
    case when token is not null then 'running' when gate in (1, 5) then 'blocked' else 'waiting' end as state
  from live
  union all
  select
    e.part,
    f.id,
    f.queue,
    f.kind,
    case when f.state = 'cancelled' and (select c.state from dibs_finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
  from e
  cross join dibs_finished f on f.id = e.id
  union all
  select
    'flow',
    f.id,
    f.queue,
    f.kind,
    case when f.state = 'cancelled' and (select c.state from dibs_finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
  from o
  cross join dibs_finished f on f.flow = o.flow
) m
group by m.part, m.queue, m.kind, m.state
order by count(*) desc, m.queue, m.kind, m.state, m.part
limit ?2
