-- Purpose: find the kinds of the jobs that are due in a queue.
-- Parameters: ?1 queue, ?2 how many jobs to look at.
-- Columns out: kind, sorted.
-- Concurrency: a plain read of the start of the ready index, which has jobs that are not due
--   yet, too.
select distinct front.kind
from (
  select j.kind, j.run_at
  from dibs_job j
  where j.queue = ?1 and j.gate = 0 and j.token is null
  order by j.priority, j.run_at, j.id
  limit ?2
) front
where front.run_at <= (
  select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
  from dibs_clock
)
order by front.kind
