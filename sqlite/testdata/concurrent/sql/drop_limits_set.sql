-- Purpose: note that all running jobs of a queue are counted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to claim. A limit that is set meanwhile has a row of its own.
delete from dibs_limit_set
where id in (select value from json_each(?1))
