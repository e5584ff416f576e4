-- Purpose: delete the steps of jobs that are deleted, or become new ones.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the jobs.
delete from dibs_step
where job in (select value from json_each(?1))
