-- Purpose: read a page of the jobs that a job comes after, in any state.
-- Parameters: ?1 the job that comes after them; ?2 only ids above this; ?3 how many.
-- Columns out: whether there is no such job any more; id; how many jobs it waits for; the columns of the view, in its
--   order. In the order of the ids.
-- Concurrency: one snapshot over all tables, so a job that is just finishing or being put back is in one of them, and
--   an edge is read with the job that it names; locks nothing.
declare
  @child bigint = ?1,
  @after bigint = ?2,
  @n int = ?3;
with page (parent) as (
  select top (@n) e.parent
  from dibs_edge e with (forceseek)
  where e.child = @child and e.parent > @after
  order by e.parent
)
select
  0 as gone,
  v.id as at,
  (select count(*) from dibs_edge e where e.child = v.id and e.stage = 1) as waits_for,
  v.*
from page p
join dibs_live_job v on v.id = p.parent
union all
select 0, v.id, 0, v.*
from page p
join dibs_ended_job v on v.id = p.parent
union all
select 1, p.parent, 0, v.*
from page p
left join dibs_ended_job v on v.id = p.parent
where not exists (select 1 from dibs_finished f where f.id = p.parent)
  and not exists (select 1 from dibs_job j where j.id = p.parent)
order by 2;
