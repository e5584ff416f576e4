-- Purpose: find when the first of a queue's groups need no longer wait for its rate.
-- Parameters: ?1 queue.
-- Columns out: the time, or null.
-- Concurrency: a plain read.
declare
  @queue varbinary(255) = ?1;
select min(held_until)
from dibs_rate with (index (held), forceseek)
where queue = @queue and held_until is not null;
