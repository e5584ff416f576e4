-- Purpose: have jobs that are put back wait again for those that they come after, unless these are deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that puts the jobs back, which then looks which of the others have ended.
select json_arrayagg(json_array(e.child, e.parent, exists (select 1 from dibs_job j where j.id = e.parent)
  or exists (select 1 from dibs_finished f where f.id = e.parent))) into @dibs_edges
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (primary) on e.child = i.id
-- then
update json_table(@dibs_edges, '$[*]' columns (child bigint path '$[0]', parent bigint path '$[1]', stage tinyint path '$[2]')) i
straight_join dibs_edge e force index (primary) on e.child = i.child and e.parent = i.parent
set e.stage = i.stage
