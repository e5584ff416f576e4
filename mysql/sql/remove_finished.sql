-- Purpose: delete finished jobs, for good or because they were put back.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the counts and, if they were put back, with their
--   insertion among the live jobs. Those that are not put back lose their edges.
select json_arrayagg(i.id) into @dibs_ids
from json_table(?1, '$[*]' columns (id bigint path '$')) i
where not exists (select 1 from dibs_job j where j.id = i.id)
-- then
delete e
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (primary) on e.child = i.id
-- then
delete f
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
