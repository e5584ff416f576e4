-- Purpose: read live jobs before they are changed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, queue, gate, whether it runs, priority, run_at, attempt, group, created_at, whether others come
--   after it, whether it is in a flow, whether it has steps.
-- Concurrency: it locks the jobs, and passes over those that others have locked.
select
  j.id,
  j.queue,
  j.gate,
  j.gate = 3,
  j.priority,
  j.run_at,
  j.attempt,
  j.group_key,
  j.created_at,
  j.followed,
  j.flow is not null,
  exists (
    select 1
    from dibs_step s
    where s.job = j.id
  )
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
for update skip locked
