-- Purpose: find the jobs that were cancelled because of some.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that puts them back.
select f.id
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (by_cause) on f.cause = i.id
