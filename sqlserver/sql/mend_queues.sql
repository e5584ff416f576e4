-- Purpose: look at some live jobs, and find the queues among theirs that have no settings, as after
--   jobs were inserted, or settings deleted, by hand.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: queue.
-- Concurrency: in the transaction of the sweep, which then makes them.
declare
  @after bigint = ?1,
  @n int = ?2;
select distinct looked.queue
from (
  select top (@n) j.queue
  from dibs_job j with (forceseek)
  where j.id > @after
  order by j.id
) looked
where not exists (
    select 1
    from dibs_queue q
    where q.name = looked.queue
  );
