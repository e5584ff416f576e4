-- Purpose: delete a schedule.
-- Parameters: ?1 name.
-- Columns out: none.
-- Concurrency: in the turn to change schedules.
delete from dibs_schedule
where name = ?1
