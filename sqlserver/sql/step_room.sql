-- Purpose: read what a step must fit in with, before it is written.
-- Parameters: ?1 job, ?2 the step's name.
-- Columns out: how many steps the job has, their bytes, the value of the step of this name or null.
-- Concurrency: the job is locked (held.sql).
declare
  @job bigint = ?1,
  @name varbinary(255) = ?2;
select
  count(*),
  coalesce(sum(convert(bigint, datalength(value))), 0),
  (select v.value from dibs_step v where v.job = @job and v.name = @name)
from dibs_step
where job = @job;
