-- Purpose: delete rows of the list of ended jobs.
-- Parameters: ?1 a JSON array of the rows' ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the jobs.
delete l
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_ended_list l force index (primary) on l.id = i.id
