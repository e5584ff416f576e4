-- Purpose: remove the entry of a worker that has stopped, and those of workers that were lost
--   long ago.
-- Parameters: ?1 id or null, ?2 remove all that were last seen before.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_worker
where id = ?1 or seen_at < ?2
