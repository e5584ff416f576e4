-- Purpose: list the queues whose rates let no job start now.
-- Parameters: ?1 now.
-- Columns out: queue, when the next job may start.
-- Concurrency: a plain read of the transaction's snapshot.
select r.queue, r.not_before
from dibs_queue q
join dibs_rate r on r.queue = q.name and r.group_key = ''
where q.rate_n > 0 and r.not_before > ?1
