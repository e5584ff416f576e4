-- Purpose: find the edges of jobs that have ended themselves.
-- Parameters: ?1 a JSON array of ids, some of which may be live; ?2 how many edges.
-- Columns out: child, parent.
-- Concurrency: in the transaction that then notes it (close_edges.sql).
select
  e.child,
  e.parent
from json_each(?1) i
cross join dibs_edge e on e.child = i.value and e.stage < 2
where not exists (select 1 from dibs_job j where j.id = i.value)
limit ?2
