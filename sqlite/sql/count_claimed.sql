-- Purpose: put jobs just claimed in a queue with a concurrency limit at gate 3.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
update dibs_job
set gate = 3
where id in (select value from json_each(?1))
