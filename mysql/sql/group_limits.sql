-- Purpose: read the limits that groups have of their own.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group, places; no row of a group without a limit of its own.
-- Concurrency: a plain read.
select l.group_key, l.places
from json_table(?2, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i
straight_join dibs_group_limit l force index (primary) on l.queue = ?1 and l.group_key = i.name
