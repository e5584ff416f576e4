-- Purpose: tell whether jobs of a group are blocked.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: 1 if so, else 0.
-- Concurrency: none; a single lookup.
select exists (
  select 1
  from dibs_job
  where queue = ?1 and group_key = ?2 and place = 1
)
