-- Purpose: take the places of a group from the jobs that could give them up.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict.
-- Columns out: none.
-- Concurrency: admit.sql gives the places to the first jobs in the same transaction.
update dibs_job
set gate = 1
where queue = ?1 and group_key = ?2 and group_key is not null and gate in (0, 3)
  and token is null and run_at <= ?3 and not (?4 and attempt > 0)
