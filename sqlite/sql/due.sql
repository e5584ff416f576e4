-- Purpose: move grouped jobs that have become due to their groups.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: the only write transaction of the file; the groups are settled in it.
update dibs_job
set gate = 1
where id in (
  select id
  from dibs_job
  where queue = ?1 and gate = 2 and run_at <= ?2
  order by run_at
  limit ?3
)
returning group_key
