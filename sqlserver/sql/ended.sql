-- Purpose: read finished jobs before they are put back or deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, state, group, unique key, whether it would hold that again, when it ended, whether
--   it is kept for others that come after it, whether it is in a flow or others come after it.
-- Concurrency: it locks the jobs, and passes over those that others have locked. Their keys are locked before: one found free stays
--   free.
-- A job does not get its unique key back if another job holds the key by now, nor if it was to hold the key only until its
-- first attempt.
declare
  @ids nvarchar(max) = ?1;
select
  f.id,
  f.queue,
  f.state,
  f.group_key,
  f.unique_key,
  case when f.unique_key is not null and (f.unique_until <> 'claimed' or f.attempt = 0) and not exists (
      select 1
      from dibs_key k
      join dibs_job j on j.id = k.job
      where k.queue = f.queue and k.unique_key = f.unique_key
        and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key
    ) then 1 else 0 end,
  f.finished_at,
  f.followed,
  case when f.flow is not null or exists (select 1 from dibs_edge e where e.parent = f.id) then 1 else 0 end
from openjson(@ids) with (id bigint '$') i
join dibs_finished f with (rowlock, updlock, readpast, readcommittedlock, forceseek) on f.id = i.id
option (force order, loop join, maxdop 1);
