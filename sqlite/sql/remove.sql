-- Purpose: delete live jobs that have ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it.
delete from dibs_job
where id in (select value from json_each(?1))
