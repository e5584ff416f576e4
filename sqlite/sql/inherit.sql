-- Purpose: have what comes after a job come after those too that the job's end has added.
-- Parameters: ?1 a JSON array of objects: id of the added job, parent.
-- Columns out: none.
-- Concurrency: in the transaction that writes the end, before it closes edges (close_edges.sql).
-- An edge is at the stage of that from the job: what has started or ended stays so, and waits if it is requeued.
-- Those that need the job failed are not among them: they are cancelled, as it is completed.
insert into dibs_edge (child, parent, need, stage)
select
  e.child,
  l.value ->> 'id',
  e.need,
  e.stage
from jsonb_each(?1) l
cross join dibs_edge e on e.parent = l.value ->> 'parent'
where e.need <> 'failed'
