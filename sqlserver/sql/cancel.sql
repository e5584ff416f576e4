-- Purpose: ask the holders of jobs to stop, and note that these are to be cancelled.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: a holder learns of it when it next extends its lease; if it never extends
--   it, the sweep cancels the job. The rows are locked (live.sql).
declare
  @ids nvarchar(max) = ?1;
update j
set cancel_requested = 1
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
