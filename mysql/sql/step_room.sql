-- Purpose: read what a step must fit in with, before it is written.
-- Parameters: ?1 job, ?2 the step's name.
-- Columns out: how many steps the job has, their bytes, the value of the step of this name or null.
-- Concurrency: the job is locked (held.sql).
select
  count(*),
  coalesce(sum(length(value)), 0),
  max(case when name = ?2 then value end)
from dibs_step
where job = ?1
