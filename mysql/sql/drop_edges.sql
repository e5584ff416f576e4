-- Purpose: delete the edges of jobs that have ended and are not kept.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the edges.
select json_arrayagg(i.id) into @dibs_ids
from json_table(?1, '$[*]' columns (id bigint path '$')) i
where not exists (select 1 from dibs_job j where j.id = i.id)
  and not exists (select 1 from dibs_finished f where f.id = i.id)
-- then
delete e
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (primary) on e.child = i.id
