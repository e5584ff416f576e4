-- Purpose: look at some live jobs, and find those that wait for nothing, or for a job that is not live among the first
--   100 that they wait for: an older program has ended it, or SQL by hand has deleted it.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: id; the job that is not live, or null.
-- Concurrency: in the transaction of the sweep, which then settles them.
select
  id,
  gone
from (
  select
    looked.id,
    looked.gate,
    (
      select e.parent
      from (
        select o.parent
        from dibs_edge o
        where o.child = looked.id and o.stage = 1
        order by o.parent
        limit 100
      ) e
      where not exists (select 1 from dibs_job p where p.id = e.parent)
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
)
where (gone is not null or not exists (select 1 from dibs_edge e where e.child = id and e.stage = 1))
  and not exists (select 1 from dibs_ended_list)
