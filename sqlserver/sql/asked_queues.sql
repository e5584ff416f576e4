-- Purpose: list the queues with groups that wait for an admission.
-- Parameters: ?1 now.
-- Columns out: queue.
-- Concurrency: a plain read.
declare
  @now bigint = ?1;
select queue
from dibs_wake
where not_before <= @now
union
select q.name
from dibs_queue q
where exists (
    select 1
    from dibs_job j with (index (later), forceseek)
    where j.place = 2 and j.queue = q.name and j.run_at <= @now
  )
union
select queue
from dibs_rate
where held_until <= @now;
