-- Purpose: delete rows of the inbox whose jobs were enqueued.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: inbox.sql has locked the rows in the same transaction.
delete i
from json_table(?1, '$[*]' columns (id bigint path '$')) n
straight_join dibs_inbox i force index (primary) on i.id = n.id
