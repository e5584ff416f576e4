-- Purpose: remove the entries of workers that have stopped, and those of workers that were lost
--   long ago.
-- Parameters: ?1 JSON array of ids in hexadecimal or null, ?2 remove all that were last seen before.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_worker
where lower(hex(id)) in (select value from json_each(?1)) or seen_at < ?2
