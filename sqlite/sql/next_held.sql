-- Purpose: find when the first of a queue's groups need no longer wait for its rate.
-- Parameters: ?1 queue.
-- Columns out: the time, or null.
-- Concurrency: a plain read of the transaction's snapshot.
select min(held_until)
from dibs_rate
where queue = ?1 and held_until is not null
