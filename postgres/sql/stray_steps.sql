-- Purpose: delete the steps and edges of jobs that are gone, which SQL by hand has left; or edges an outcome that added
--   jobs while what came after its job was cancelled in another transaction.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: one snapshot. A step or an edge is inserted for a job that is there, and a job moves between the two tables
--   in one statement, so none is deleted whose job is there.
with edges as (
    delete from dibs.edge e
    where not exists (select from dibs.job j where j.id = e.child) and not exists (select from dibs.finished f where f.id = e.child)
)
delete from dibs.step s
where not exists (select from dibs.job j where j.id = s.job) and not exists (select from dibs.finished f where f.id = s.job)
