-- Purpose: delete old minutes of the history.
-- Parameters: ?1 the first minute to keep.
-- Columns out: none.
-- Concurrency: in the turn to sweep.
declare
  @minute bigint = ?1;
delete from dibs_history
where minute < @minute;
