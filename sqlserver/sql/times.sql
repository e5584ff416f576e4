-- Purpose: read how long the last completed jobs of a queue waited and ran.
-- Parameters: ?1 queue; ?2 how many jobs.
-- Columns out: when the job ended; how long it waited and ran in the last attempt, in
--   microseconds.
-- Concurrency: a plain read along the index by time; locks nothing.
declare
  @queue varbinary(255) = ?1,
  @n int = ?2;
select
  e.finished_at,
  e.claimed_at - e.run_at,
  e.finished_at - e.claimed_at
from (
  select top (@n)
    finished_at,
    claimed_at,
    run_at
  from dibs_finished with (index (by_time), forceseek)
  where queue = @queue and state = 'completed'
  order by finished_at desc, id desc
) e
where e.claimed_at is not null;
