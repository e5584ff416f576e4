-- Purpose: delete rows of the list of ended jobs.
-- Parameters: ?1 a JSON array of the rows' ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the jobs.
delete from dibs_ended_list
where id in (select value from json_each(?1))
