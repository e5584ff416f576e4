-- Purpose: delete wake rows whose groups have been settled.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to admit.
delete from dibs_wake
where id in (select value from json_each(?1))
