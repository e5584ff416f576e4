-- Purpose: find when the first of a queue's groups need no longer wait for its rate.
-- Parameters: ?1 queue.
-- Columns out: the time, or null.
-- Concurrency: a plain read.
select min(held_until)
from dibs_rate force index (held)
where queue = ?1 and held_until is not null
