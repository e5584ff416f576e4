-- Purpose: find the kinds of the jobs that are due in a queue.
-- Parameters: ?1 queue, ?2 how many jobs to look at.
-- Columns out: kind, sorted.
-- Concurrency: a plain read of the start of the index lane, which has jobs that are not due yet, too.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select distinct front.kind
from (
  select top (@n) j.kind, j.run_at
  from dibs_job j with (index (lane), forceseek)
  where j.queue = @queue and j.gate = 0
  order by j.priority, j.run_at, j.id
) front
where front.run_at <= datediff_big(microsecond, '19700101', sysutcdatetime())
order by front.kind;
