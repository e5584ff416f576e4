-- Purpose: delete rows of counts that were added up.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the addition, so every snapshot has the same sums.
delete from dibs_tally
where id in (select value from json_each(?1))
