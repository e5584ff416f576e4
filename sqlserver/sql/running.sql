-- Purpose: count the jobs that run in a queue with a concurrency limit.
-- Parameters: ?1 queue, ?2 where to stop counting.
-- Columns out: count.
-- Concurrency: in the turn to claim alone; it has just swept ended leases,
--   so all counted jobs have live leases.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select count(*)
from (
  select top (@n) 1 as one
  from dibs_job with (index (lane), forceseek)
  where queue = @queue and gate = 3
) c;
