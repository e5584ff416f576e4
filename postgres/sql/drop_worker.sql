-- Purpose: remove the entries of workers that have stopped.
-- Parameters: $1 ids.
-- Columns out: none.
-- Concurrency: nobody else writes the row of a worker that has stopped, except to remove it.
delete from dibs.worker
where id = any ($1::uuid[])
