-- Purpose: find jobs that have ended and that some wait for.
-- Parameters: ?1 a JSON array of ids of those that wait.
-- Columns out: id.
-- Concurrency: in the transaction that has made them wait.
select distinct e.parent
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (open_edge) on e.child = i.id and e.stage = 1
where not exists (select 1 from dibs_job j where j.id = e.parent)
