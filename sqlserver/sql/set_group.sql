-- Purpose: give a group its own limit.
-- Parameters: ?1 queue, ?2 group, ?3 places.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2,
  @places int = ?3;
update dibs_group_limit
set places = @places
where queue = @queue and group_key = @group;
if @@rowcount = 0
  insert into dibs_group_limit (queue, group_key, places)
  values (@queue, @group, @places);
