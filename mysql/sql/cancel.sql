-- Purpose: ask the holders of jobs to stop, and note that these are to be cancelled.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: a holder learns of it when it next extends its lease; if it never extends
--   it, the sweep cancels the job. The rows are locked (live.sql).
update json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.cancel_requested = 1
