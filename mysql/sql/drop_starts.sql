-- Purpose: delete starts that were counted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to admit.
delete t
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_start t force index (primary) on t.id = i.id
