-- Purpose: remove the entries of workers that have stopped.
-- Parameters: $1 ids.
-- Columns out: none.
-- Concurrency: nobody else writes these rows but who removes them, too.
delete from dibs.worker
where id = any ($1::uuid[])
