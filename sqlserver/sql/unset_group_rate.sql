-- Purpose: take a group's rate away: from now on the group follows its queue's rate for groups, if
--   there is one.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places. What it
--   has saved up, or owes, stays.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2;
update dibs_rate
set
  n = 0,
  per = 0,
  burst = 0,
  not_before = 0,
  held_until = null
where queue = @queue and group_key = @group;
