-- Purpose: read a page of the jobs that a job comes after, in any state.
-- Parameters: ?1 the job that comes after them; ?2 only ids above this; ?3 how many.
-- Columns out: whether there is no such job any more; id; how many jobs it waits for; the columns of the view, in its
--   order. In the order of the ids.
-- Concurrency: one snapshot over all tables, so a job that is just finishing or being put back is in one of them, and
--   an edge is read with the job that it names; locks nothing.
with page (parent) as (
  select e.parent
  from dibs_edge e
  where e.child = ?1 and e.parent > ?2
  order by e.parent
  limit ?3
)
select
  0,
  v.id as at,
  (select count(*) from dibs_edge e where e.child = v.id and e.stage = 1),
  v.*
from page p
straight_join dibs_live_job v on v.id = p.parent
union all
select 0, v.id, 0, v.*
from page p
straight_join dibs_ended_job v on v.id = p.parent
union all
select 1, p.parent, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from page p
where not exists (select 1 from dibs_finished f where f.id = p.parent)
  and not exists (select 1 from dibs_job j where j.id = p.parent)
order by 2
