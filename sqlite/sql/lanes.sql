-- Purpose: find the priorities that have due jobs, ascending.
-- Parameters: ?1 queue, ?2 only priorities above this, ?3 now, ?4 a JSON array of
--   kinds or null for all, ?5 how many.
-- Columns out: priority.
-- Concurrency: a plain read of the transaction's snapshot.
-- Two index seeks per priority in use: it never reads past jobs that are not due, however
--   many there are.
with recursive lane (priority) as (
  select min(priority)
  from dibs_job
  where queue = ?1 and gate = 0 and token is null and priority > ?2
  union all
  select (
    select min(j.priority)
    from dibs_job j
    where j.queue = ?1 and j.gate = 0 and j.token is null and j.priority > lane.priority
  )
  from lane
  where lane.priority is not null
)
select priority
from lane
where priority is not null
  and exists (
    select 1
    from dibs_job j
    where j.queue = ?1 and j.gate = 0 and j.token is null and j.priority = lane.priority
      and j.run_at <= ?3
      and (?4 is null or j.kind in (select value from json_each(?4)))
  )
limit ?5
