-- Purpose: give a group a rate of its own.
-- Parameters: ?1 queue, ?2 group, ?3 n, ?4 per in microseconds, ?5 burst.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places. What it has saved up, or
--   owes, stays.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2,
  @n int = ?3,
  @per bigint = ?4,
  @burst int = ?5;
update dibs_rate
set
  n = @n,
  per = @per,
  burst = @burst,
  not_before = 0,
  held_until = null
where queue = @queue and group_key = @group;
if @@rowcount = 0
  insert into dibs_rate (queue, group_key, n, per, burst)
  values (@queue, @group, @n, @per, @burst);
