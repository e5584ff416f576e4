-- Purpose: find the groups that need no longer wait for their rates.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: the only write transaction of the file; the groups are settled in it.
select group_key
from dibs_rate
where queue = ?1 and held_until <= ?2
order by held_until
limit ?3
