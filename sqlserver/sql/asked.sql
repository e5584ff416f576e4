-- Purpose: tell whether groups of a queue wait for an admission.
-- Parameters: ?1 queue, ?2 now.
-- Columns out: 1 if so, else 0.
-- Concurrency: a plain read; a transaction that asks later wakes workers.
declare
  @queue varbinary(255) = ?1,
  @now bigint = ?2;
select case
  when exists (
    select 1
    from dibs_wake with (index (by_group), forceseek)
    where queue = @queue and not_before <= @now
  ) then 1
  when exists (
    select 1
    from dibs_job with (index (later), forceseek)
    where place = 2 and queue = @queue and run_at <= @now
  ) then 1
  when exists (
    select 1
    from dibs_rate with (index (held), forceseek)
    where queue = @queue and held_until <= @now
  ) then 1
  else 0
end;
