-- Purpose: have jobs that still wait for others wait again for some that are put back.
-- Parameters: ?1 a JSON array of ids of those that are put back.
-- Columns out: none.
-- Concurrency: in the transaction that puts them back.
select json_arrayagg(json_array(e.child, e.parent)) into @dibs_edges
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (by_parent) on e.parent = i.id and e.stage = 0
straight_join dibs_job j force index (primary) on j.id = e.child
where j.gate = 5
-- then
update json_table(@dibs_edges, '$[*]' columns (child bigint path '$[0]', parent bigint path '$[1]')) i
straight_join dibs_edge e force index (primary) on e.child = i.child and e.parent = i.parent
set e.stage = 1
