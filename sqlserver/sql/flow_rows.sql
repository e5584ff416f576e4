-- Purpose: count the jobs that a job comes after, those that come after it, and those of its flow.
-- Parameters: ?1 id; ?2 how many rows there are at most; ?3 how many jobs are counted at most: of those before, of those
--   after, and of the flow of those that have not ended and of each final state.
-- Columns out: before, after or flow; queue; kind; state, or unneeded; how many jobs; the
--   least id of these.
-- Concurrency: a plain read of one snapshot; locks nothing. It reads each of the jobs, by its id or by the
--   index of its flow. If more have not ended than are counted, half of the count are the oldest, which run
--   first, and half the newest, which come after others.
declare
  @id bigint = ?1,
  @rows int = ?2,
  @n int = ?3;
declare @flow bigint = coalesce((select flow from dibs_job where id = @id), (select flow from dibs_finished where id = @id));
with jobs (part, id) as (
  select 'before', b.parent
  from (select top (@n) parent from dibs_edge with (forceseek) where child = @id) b
  union all
  select 'after', a.child
  from (select top (@n) child from dibs_edge with (index (by_parent), forceseek) where parent = @id) a
  union all
  select 'flow', l.id
  from (
    select a.id
    from (select top (@n - @n / 2) id from dibs_job with (index (flow), forceseek) where flow = @flow order by id) a
    union
    select b.id
    from (select top (@n / 2) id from dibs_job with (index (flow), forceseek) where flow = @flow order by id desc) b
  ) l
  union all
  select 'flow', c.id
  from (select top (@n) id from dibs_finished with (index (by_flow), forceseek) where flow = @flow and state = 'completed') c
  union all
  select 'flow', d.id
  from (select top (@n) id from dibs_finished with (index (by_flow), forceseek) where flow = @flow and state = 'dead') d
  union all
  select 'flow', c.id
  from (select top (@n) id from dibs_finished with (index (by_flow), forceseek) where flow = @flow and state = 'cancelled') c
)
select top (@rows)
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
    case when j.gate = 3 then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end collate Latin1_General_100_BIN2_UTF8 as state
  from jobs a
  join dibs_job j on j.id = a.id
  union all
  select
    a.part,
    f.id,
    f.queue,
    f.kind,
    case
      when f.state = 'cancelled' and exists (select 1 from dibs_finished c where c.id = f.cause and c.state = 'completed')
        then 'unneeded' collate Latin1_General_100_BIN2_UTF8
      else f.state
    end
  from jobs a
  join dibs_finished f on f.id = a.id
) m
group by m.part, m.queue, m.kind, m.state
order by count(*) desc, m.queue, m.kind, m.state, m.part;
