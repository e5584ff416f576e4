-- Purpose: take the unique key from jobs that hold it only until they are claimed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
update dibs_job
set unique_held = 0
where id in (select value from json_each(?1))
