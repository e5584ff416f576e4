-- Purpose: note that a job is to be cancelled, and ask its holder to stop.
-- Parameters: ?1 id.
-- Columns out: none.
-- Concurrency: the holder reads it when it next extends its lease; if it never does,
--   the sweep cancels the job.
update dibs_job
set cancel_requested = 1
where id = ?1
