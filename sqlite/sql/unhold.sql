-- Purpose: free the places that jobs hold while they wait for their retry, when a
--   queue is no longer strict.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: none.
-- Concurrency: the groups are settled in the same write transaction.
update dibs_job
set gate = 2
where queue = ?1 and group_key is not null and gate in (0, 3)
  and token is null and run_at > ?2
