-- Purpose: list the queues whose rates let no job start now.
-- Parameters: none.
-- Columns out: queue, when the next job may start.
-- Concurrency: a plain read of one row for each queue with a rate.
select r.queue, r.not_before
from dibs.queue q
join dibs.rate r on r.queue = q.name and r.group_key = ''
where q.rate_n > 0 and r.not_before > statement_timestamp()
