-- Purpose: take a group's own limit away.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2;
delete from dibs_group_limit
where queue = @queue and group_key = @group;
