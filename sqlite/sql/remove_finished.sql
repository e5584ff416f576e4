-- Purpose: delete a finished job that was put back.
-- Parameters: ?1 id.
-- Columns out: none.
-- Concurrency: in one transaction with its insertion among the live jobs.
delete from dibs_finished
where id = ?1
