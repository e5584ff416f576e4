-- Purpose: note the turn to which a claim has come.
-- Parameters: ?1 queue, ?2 turn.
-- Columns out: none.
-- Concurrency: the turn never goes back.
declare
  @queue varbinary(255) = ?1,
  @turn bigint = ?2;
update dibs_reached
set turn = @turn
where queue = @queue and turn < @turn;
