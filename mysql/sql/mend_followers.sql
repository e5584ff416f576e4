-- Purpose: look at some live jobs, and find those that wait for nothing, or for a job that is not live among the first
--   100 that they wait for: an older program has ended it, or SQL by hand has deleted it.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: id; the job that is not live, or null.
-- Concurrency: in the transaction of the sweep, which then settles them.
select
  m.id,
  m.gone
from (
  select
    looked.id,
    (
      select e.parent
      from dibs_edge e force index (open_edge)
      where e.child = looked.id and e.stage = 1
        and not exists (select 1 from dibs_job p where p.id = e.parent)
      limit 1
    ) as gone
  from (
    select id, gate
    from dibs_job
    where id > ?1
    order by id
    limit ?2
  ) looked
  where looked.gate = 5
) m
where (m.gone is not null or not exists (select 1 from dibs_edge e where e.child = m.id and e.stage = 1))
  and not exists (select 1 from dibs_ended_list)
