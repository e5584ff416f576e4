-- Purpose: tell in which groups jobs are blocked.
-- Parameters: ?1 queue, ?2 a JSON array of groups.
-- Columns out: group.
-- Concurrency: none; a lookup for each group.
select i.value
from json_each(?2) i
where exists (
  select 1
  from dibs_job b
  where b.queue = ?1 and b.group_key = i.value and b.gate = 1
)
