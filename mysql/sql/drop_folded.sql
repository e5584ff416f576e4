-- Purpose: delete rows of counts that were added up.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the addition, so every snapshot has the same sums.
delete t
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_tally t force index (primary) on t.id = i.id
