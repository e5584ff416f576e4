-- Purpose: delete the steps of jobs that are gone, which SQL by hand has left.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_step
where not exists (select 1 from dibs_job j where j.id = dibs_step.job)
  and not exists (select 1 from dibs_finished f where f.id = dibs_step.job)
