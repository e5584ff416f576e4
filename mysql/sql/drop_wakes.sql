-- Purpose: delete wake rows whose groups have been settled.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to admit.
delete t
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_wake t force index (primary) on t.id = i.id
