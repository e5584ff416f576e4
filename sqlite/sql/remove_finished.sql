-- Purpose: delete finished jobs, for good or because they were put back.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the counts and, if they were put back, with their
--   insertion among the live jobs.
delete from dibs_finished
where id in (select value from json_each(?1))
