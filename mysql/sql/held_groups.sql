-- Purpose: find the groups that need no longer wait for their rates.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: in the turn to admit.
select group_key
from dibs_rate force index (held)
where queue = ?1 and held_until <= ?2
order by held_until
limit ?3
