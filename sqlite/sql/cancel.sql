-- Purpose: ask the holders of jobs to stop, and note that these are to be cancelled.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: a holder learns of it when it next extends its lease; if it never extends
--   it, the sweep cancels the job.
update dibs_job
set cancel_requested = 1
where id in (select value from json_each(?1))
