-- Purpose: give free places of a group to its first blocked jobs.
-- Parameters: ?1 queue, ?2 group, ?3 how many.
-- Columns out: none.
-- Concurrency: the places were counted in the same write transaction (group.sql).
update dibs_job
set gate = 0
where id in (
  select id
  from dibs_job indexed by dibs_job_blocked
  where queue = ?1 and group_key = ?2 and gate = 1
  order by priority, run_at, id
  limit ?3
)
