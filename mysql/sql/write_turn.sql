-- Purpose: take a turn on a cluster until the transaction ends.
-- Parameters: ?1 turn, ?2 queue.
-- Columns out: 1 if it is taken; 1 if the turn has a row.
-- Concurrency: it never waits: it passes over a row that others have locked. The row changes, so that of two transactions on two
--   nodes only one commits.
select max(x.what) into @dibs_locked
from (
  select what
  from dibs_turn force index (primary)
  where what = ?1 and queue = ?2
  limit 1
  for update skip locked
) x
-- then
update dibs_turn
set n = n + 1
where what = ?1 and queue = ?2 and @dibs_locked is not null
-- then
select @dibs_locked is not null, exists (
  select 1
  from dibs_turn
  where what = ?1 and queue = ?2
)
