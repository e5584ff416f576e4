-- Purpose: count the blocked jobs of a queue that come after others.
-- Parameters: ?1 queue; ?2 how many are counted at most.
-- Columns out: how many they are.
-- Concurrency: a plain read of an index; locks nothing.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select count(*)
from (
  select top (@n) 1 as one
  from dibs_job j with (index (lane), forceseek)
  where j.queue = @queue and j.gate = 5
) c;
