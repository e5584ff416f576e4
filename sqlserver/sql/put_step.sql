-- Purpose: write that a step is done.
-- Parameters: ?1 job, ?2 name, ?3 value.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it (held.sql).
declare
  @job bigint = ?1,
  @name varbinary(255) = ?2,
  @value nvarchar(max) = ?3;
insert into dibs_step (job, name, value)
values (@job, @name, @value);
