-- Purpose: delete a schedule.
-- Parameters: ?1 name.
-- Columns out: none.
-- Concurrency: its ticks are taken in write transactions only.
delete from dibs_schedule
where name = ?1
