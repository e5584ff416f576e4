-- Purpose: move a schedule on to its next tick.
-- Parameters: ?1 name, ?2 next tick or null, ?3 last tick and ?4 its job, or nulls if no job
--   was made.
-- Columns out: none.
-- Concurrency: in the turn to take ticks.
declare
  @name varbinary(255) = ?1,
  @next_at bigint = ?2,
  @last_tick bigint = ?3,
  @last_job bigint = ?4;
update dibs_schedule
set
  next_at = @next_at,
  last_tick = coalesce(@last_tick, last_tick),
  last_job = coalesce(@last_job, last_job)
where name = @name;
