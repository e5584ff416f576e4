-- Purpose: tell whether jobs of a queue hold places of groups.
-- Parameters: ?1 queue.
-- Columns out: 1 if so.
-- Concurrency: none; a single lookup.
declare
  @queue varbinary(255) = ?1;
select case when exists (
    select 1
    from dibs_job with (index (place), forceseek)
    where queue = @queue and place in (0, 3)
  ) then 1 else 0 end;
