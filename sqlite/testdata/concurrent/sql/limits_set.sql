-- Purpose: find out whether claims have taken jobs of a queue before it got its limit, which are to be counted.
-- Parameters: ?1 queue.
-- Columns out: id.
-- Concurrency: in the turn to claim, which claims without a limit share: those that began before the limit are over.
select id
from dibs_limit_set
where queue = ?1
