-- Purpose: tell whether jobs of a queue hold places of groups.
-- Parameters: ?1 queue.
-- Columns out: 1 if so.
-- Concurrency: none; a single lookup.
select exists (
  select 1
  from dibs_job force index (place)
  where queue = ?1 and group_key is not null and place in (0, 3)
)
