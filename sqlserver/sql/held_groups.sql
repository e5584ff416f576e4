-- Purpose: find the groups that need no longer wait for their rates.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: in the turn to admit.
declare
  @queue varbinary(255) = ?1,
  @now bigint = ?2,
  @n int = ?3;
select top (@n) group_key
from dibs_rate with (index (held), forceseek)
where queue = @queue and held_until <= @now
order by held_until;
