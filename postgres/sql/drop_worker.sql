-- Purpose: remove the entry of a worker that has stopped.
-- Parameters: $1 id.
-- Columns out: none.
-- Concurrency: nobody else writes this row but who removes it, too.
delete from dibs.worker
where id = $1
