-- Purpose: take the unique key from jobs that hold it only until they are claimed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
update json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.unique_held = 0
