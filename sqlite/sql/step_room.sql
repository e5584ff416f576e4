-- Purpose: read what a step must fit in with, before it is written.
-- Parameters: ?1 job, ?2 the step's name.
-- Columns out: how many steps the job has, their bytes, the value of the step of this name or null.
-- Concurrency: the only write transaction of the file.
select
  count(*),
  coalesce(sum(octet_length(value)), 0),
  max(iif(name = ?2, value, null))
from dibs_step
where job = ?1
