-- Purpose: count the jobs that run in a queue with a concurrency limit.
-- Parameters: ?1 queue, ?2 where to stop counting.
-- Columns out: count.
-- Concurrency: in the turn to claim alone; it has just swept ended leases,
--   so all counted jobs have live leases.
select count(*)
from (
  select 1
  from dibs_job force index (lane)
  where queue = ?1 and gate = 3
  limit ?2
) c
