-- Purpose: delete the steps of jobs that are gone, which SQL by hand has left.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: in the turn to sweep.
delete from s
from dibs_step s
where not exists (select 1 from dibs_job j where j.id = s.job)
  and not exists (select 1 from dibs_finished f where f.id = s.job);
