-- Purpose: list the queues with groups that wait for an admission.
-- Parameters: ?1 now.
-- Columns out: queue.
-- Concurrency: a plain read.
select queue
from dibs_wake
where not_before <= ?1
union
select q.name
from dibs_queue q
where (
    select j.run_at
    from dibs_job j force index (later)
    where j.place = 2 and j.queue = q.name
    order by j.run_at
    limit 1
  ) <= ?1
union
select queue
from dibs_rate
where held_until <= ?1
