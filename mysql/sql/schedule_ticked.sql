-- Purpose: move a schedule on to its next tick.
-- Parameters: ?1 name, ?2 next tick or null, ?3 last tick and ?4 its job, or nulls if no job
--   was made.
-- Columns out: none.
-- Concurrency: in the turn to take ticks.
update dibs_schedule
set
  next_at = ?2,
  last_tick = coalesce(?3, last_tick),
  last_job = coalesce(?4, last_job)
where name = ?1
