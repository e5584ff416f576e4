-- Purpose: list the queues with groups that wait for an admission.
-- Parameters: ?1 now.
-- Columns out: queue.
-- Concurrency: a plain read.
select queue
from dibs_wake
where not_before <= ?1
union
select queue
from dibs_job force index (later)
where place = 2 and run_at <= ?1
union
select queue
from dibs_rate
where held_until <= ?1
