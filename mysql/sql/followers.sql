-- Purpose: count the blocked jobs of a queue that come after others.
-- Parameters: ?1 queue; ?2 how many are counted at most.
-- Columns out: how many they are.
-- Concurrency: a plain read of an index; locks nothing.
select count(*)
from (
  select 1
  from dibs_job j force index (lane)
  where j.queue = ?1 and j.gate = 5
  limit ?2
) c
