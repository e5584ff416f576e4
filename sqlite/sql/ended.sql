-- Purpose: read finished jobs before they are put back or deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, state, group, unique key, whether it would hold that again, when it ended, whether
--   it is kept for others that come after it, whether it is in a flow or others come after it.
-- Concurrency: the only write transaction of the file: a key found free stays free in it.
-- A job does not get its unique key back if another job holds the key by now, nor if it was to hold the key only until its
--   first attempt.
select
  f.id,
  f.queue,
  f.state,
  f.group_key,
  f.unique_key,
  f.unique_key is not null and (f.unique_until <> 'claimed' or f.attempt = 0) and not exists (
    select 1
    from dibs_job j
    where j.queue = f.queue and j.unique_key = f.unique_key and j.unique_held = 1
  ),
  f.finished_at,
  f.followed,
  f.flow is not null or exists (select 1 from dibs_edge e where e.parent = f.id)
from json_each(?1) i
cross join dibs_finished f on f.id = i.value
