-- Purpose: delete the steps of the jobs that prune.sql deletes next.
-- Parameters: those of prune.sql.
-- Columns out: none.
-- Concurrency: in one transaction with prune.sql, which finds the same jobs.
delete from dibs_step
where job in (
  select id
  from dibs_finished
  where queue = ?1 and state = ?2 and finished_at <= ?3 and followed = 0
  order by finished_at, id
  limit ?4
)
