-- Purpose: delete the payloads of jobs that are gone.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: one snapshot. A payload is inserted with its job and never changed, and a job
--   moves between the two tables in one statement, so none is deleted whose job is there.
delete from dibs.payload p
where not exists (select from dibs.job j where j.id = p.id) and not exists (select from dibs.finished f where f.id = p.id)
