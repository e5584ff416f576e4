-- Purpose: tell whether the next claim would find grouped jobs to admit.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: 1; no row if it would not.
-- Concurrency: a plain read for waiting workers; locks nothing.
select 1
where exists (
    select 1
    from dibs_job
    where queue = ?1 and gate = 2 and run_at <= ?2
  )
