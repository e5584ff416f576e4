-- Purpose: have what comes after a job come after those too that the job's end has added.
-- Parameters: ?1 a JSON array of objects: id of the added job, parent; ?2 a JSON array of the ids of all that the call has
--   added, which inherit nothing; ?3 whether the added jobs come after older ones.
-- Columns out: none.
-- Concurrency: in the transaction that writes the end, before it closes edges (close_edges.sql).
-- An edge is at the stage of that from the job: what has started or ended stays so, and waits if it is requeued.
-- Those that need the job failed are not among them: they are cancelled, as it is completed. Nor are, of jobs that come
-- after older ones, those that one of them comes after, at any distance: they might wait for each other. What is above the
-- job itself is none of them.
with recursive above (job, parent) as (
  select l.value ->> 'id', l.value ->> 'parent'
  from jsonb_each(?1) l
  where ?3
  union
  select e.parent, a.parent
  from above a
  cross join dibs_edge e on e.child = a.job
  where e.parent <> a.parent
)
insert into dibs_edge (child, parent, need, stage)
select
  e.child,
  l.value ->> 'id',
  e.need,
  e.stage
from jsonb_each(?1) l
cross join dibs_edge e on e.parent = l.value ->> 'parent'
where e.need <> 'failed'
  and e.child not in (select value from json_each(?2))
  and not exists (select 1 from above a where a.job = e.child)
