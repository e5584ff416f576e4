-- Purpose: delete a finished job, for good or because it was put back.
-- Parameters: ?1 id.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the counts and, if it was put back, with its
--   insertion among the live jobs.
delete from dibs_finished
where id = ?1
