-- Purpose: delete the steps of jobs that are gone, which SQL by hand has left.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: one snapshot. A step is inserted for a job that is there, and a job moves between the two tables in one
--   statement, so none is deleted whose job is there.
delete from dibs.step s
where not exists (select from dibs.job j where j.id = s.job) and not exists (select from dibs.finished f where f.id = s.job)
