-- Purpose: note the turn to which a claim has come.
-- Parameters: ?1 queue, ?2 turn.
-- Columns out: none.
-- Concurrency: the turn never goes back.
update dibs_reached
set turn = greatest(turn, ?2)
where queue = ?1
