-- Purpose: delete old minutes of the history.
-- Parameters: ?1 the first minute to keep.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_history
where minute < ?1
