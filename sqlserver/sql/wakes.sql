-- Purpose: read the wake rows of a queue.
-- Parameters: ?1 queue, ?2 how many.
-- Columns out: id, group.
-- Concurrency: in the turn to admit, so nobody else deletes them. Those that come later stay.
--   Those that are to be settled later are settled too: an admission that finds their jobs held asks for that again.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select top (@n) id, group_key
from dibs_wake
where queue = @queue
order by id;
