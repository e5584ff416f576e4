-- Purpose: find the kinds of the jobs that are due in a queue.
-- Parameters: ?1 queue, ?2 how many jobs to look at.
-- Columns out: kind, sorted.
-- Concurrency: a plain read of the start of the index lane, which has jobs that are not due yet, too.
select distinct front.kind
from (
  select j.kind, j.run_at
  from dibs_job j force index (lane)
  where j.queue = ?1 and j.gate = 0
  order by j.priority, j.run_at, j.id
  limit ?2
) front
where front.run_at <= timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
order by front.kind
