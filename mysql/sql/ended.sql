-- Purpose: read finished jobs before they are put back or deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, state, group, unique key, whether it would hold that again, when it ended, whether
--   it is kept for others that come after it, whether it is in a flow or others come after it.
-- Concurrency: it locks the jobs, and passes over those that others have locked. Their keys are locked before: one found free stays
--   free.
-- A job does not get its unique key back if another job holds the key by now, nor if it was to hold the key only until its
-- first attempt.
select
  f.id,
  f.queue,
  f.state,
  f.group_key,
  f.unique_key,
  f.unique_key is not null and (f.unique_until <> 'claimed' or f.attempt = 0) and not exists (
    select 1
    from dibs_key k
    straight_join dibs_job j force index (primary) on j.id = k.job
    where k.queue = f.queue and k.unique_key = f.unique_key and j.unique_held = 1 and j.queue = k.queue and j.unique_key = k.unique_key
  ),
  f.finished_at,
  f.followed,
  f.flow is not null or exists (select 1 from dibs_edge e where e.parent = f.id)
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_finished f force index (primary) on f.id = i.id
for update skip locked
