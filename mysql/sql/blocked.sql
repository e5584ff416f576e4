-- Purpose: tell in which groups jobs are blocked.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group.
-- Concurrency: none; a lookup for each group.
select i.name
from json_table(?2, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) i
where (
  select 1
  from dibs_job b force index (place)
  where b.queue = ?1 and b.group_key = i.name and b.place = 1
  limit 1
)
