-- Purpose: delete the edges of jobs that have ended and are not kept.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the edges.
delete e
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e on e.child = i.id
where not exists (select 1 from dibs_job j where j.id = e.child)
  and not exists (select 1 from dibs_finished f where f.id = e.child)
