-- Purpose: delete a schedule.
-- Parameters: ?1 name.
-- Columns out: none.
-- Concurrency: in the turn to change schedules.
declare
  @name varbinary(255) = ?1;
delete from dibs_schedule
where name = @name;
