-- Purpose: have jobs that still wait for others wait again for some that are put back.
-- Parameters: ?1 a JSON array of ids of those that are put back.
-- Columns out: none.
-- Concurrency: in the transaction that puts them back.
update json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (by_parent) on e.parent = i.id and e.stage = 0
straight_join dibs_job j on j.id = e.child
set e.stage = 1
where j.gate = 5
