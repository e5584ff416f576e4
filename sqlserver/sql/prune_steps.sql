-- Purpose: delete the steps of the jobs that prune.sql deletes next.
-- Parameters: those of prune.sql.
-- Columns out: none.
-- Concurrency: none. Here prune.sql deletes the steps: a session has no variables in which this statement could leave the jobs.
select top (0) 1;
