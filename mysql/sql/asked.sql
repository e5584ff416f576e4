-- Purpose: tell whether groups of a queue wait for an admission.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: 1 if so, else 0.
-- Concurrency: a plain read; a transaction that asks later wakes workers.
select
  exists (
    select 1
    from dibs_wake
    where queue = ?1 and not_before <= ?2
  )
  or exists (
    select 1
    from dibs_job force index (later)
    where place = 2 and queue = ?1 and run_at <= ?2
  )
  or exists (
    select 1
    from dibs_rate
    where queue = ?1 and held_until <= ?2
  )
