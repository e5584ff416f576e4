-- Purpose: delete a live job that has ended.
-- Parameters: ?1 id.
-- Columns out: none.
-- Concurrency: in one transaction with the fence before it.
delete from dibs_job
where id = ?1
