-- Purpose: have what comes after a job come after those too that the job's end has added.
-- Parameters: ?1 a JSON array of objects: id of the added job, parent; ?2 a JSON array of the ids of all that the call has
--   added, which inherit nothing; ?3 whether the added jobs come after older ones.
-- Columns out: none.
-- Concurrency: in the transaction that writes the end, before it closes edges (close_edges.sql).
-- An edge is at the stage of that from the job: what has started or ended stays so, and waits if it is requeued.
-- Those that need the job failed are not among them: they are cancelled, as it is completed. Nor are, of jobs that come
-- after older ones, those that one of them comes after, at any distance: they might wait for each other. What is above the
-- job itself is none of them.
insert into dibs_edge (child, parent, need, stage)
with recursive above (job, parent) as (
  select l.id, l.parent
  from json_table(?1, '$[*]' columns (id bigint path '$.id', parent bigint path '$.parent')) l
  where ?3
  union
  select e.parent, a.parent
  from above a
  straight_join dibs_edge e force index (primary) on e.child = a.job
  where e.parent <> a.parent
)
select
  e.child,
  l.id,
  e.need,
  e.stage
from json_table(?1, '$[*]' columns (id bigint path '$.id', parent bigint path '$.parent')) l
straight_join dibs_edge e force index (by_parent) on e.parent = l.parent
where e.need <> 'failed'
  and not json_contains(?2, cast(e.child as char))
  and not exists (select 1 from above a where a.job = e.child)
