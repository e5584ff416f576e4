-- Purpose: read the starts that the rates of groups have not counted yet.
-- Parameters: ?1 queue, ?2 how many.
-- Columns out: id, time of the claim, a JSON array with the group of each job.
-- Concurrency: in the turn to admit, so nobody else counts them. Read after the places of groups were counted.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select top (@n) id, at, group_keys
from dibs_start with (index (by_queue), forceseek)
where queue = @queue
order by id;
