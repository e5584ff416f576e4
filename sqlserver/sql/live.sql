-- Purpose: read live jobs before they are changed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, gate, whether it runs, priority, run_at, attempt, group, created_at, whether others come
--   after it, whether it is in a flow, whether it has steps.
-- Concurrency: it locks the jobs, and passes over those that others have locked.
declare
  @ids nvarchar(max) = ?1;
select
  j.id,
  j.queue,
  j.gate,
  case when j.gate = 3 then 1 else 0 end,
  j.priority,
  j.run_at,
  j.attempt,
  j.group_key,
  j.created_at,
  j.followed,
  case when j.flow is not null then 1 else 0 end,
  case when exists (
    select 1
    from dibs_step s
    where s.job = j.id
  ) then 1 else 0 end
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
