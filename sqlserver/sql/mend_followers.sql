-- Purpose: look at some live jobs, and find those that wait for nothing, or for a job that is not live among the first
--   100 that they wait for: an older program has ended it, or SQL by hand has deleted it.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: id; the job that is not live, or null.
-- Concurrency: in the transaction of the sweep, which then settles them.
declare
  @after bigint = ?1,
  @n int = ?2;
select l.id, g.parent
from (
  select top (@n) j.id, j.gate
  from dibs_job j with (forceseek)
  where j.id > @after
  order by j.id
) l
outer apply (
  select top (1) e.parent
  from (
    select top (100) o.parent
    from dibs_edge o with (index (open_edge), forceseek)
    where o.child = l.id and o.stage = 1
    order by o.parent
  ) e
  where not exists (select 1 from dibs_job p where p.id = e.parent)
  order by e.parent
) g
where l.gate = 5 and not exists (select 1 from dibs_ended_list)
  and (g.parent is not null or not exists (select 1 from dibs_edge e where e.child = l.id and e.stage = 1));
