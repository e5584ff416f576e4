-- Purpose: delete starts that were counted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to admit.
delete from dibs_start
where id in (select value from json_each(?1))
