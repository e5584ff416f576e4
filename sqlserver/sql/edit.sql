-- Purpose: change the priority and run_at of jobs that wait.
-- Parameters: ?1 a JSON array of objects: id, priority, run_at, gate.
-- Columns out: none.
-- Concurrency: the jobs are locked (live.sql); a claimed job is not changed.
declare
  @jobs nvarchar(max) = ?1;
update j
set
  priority = l.priority,
  run_at = l.run_at,
  gate = l.gate
from openjson(@jobs) with (id bigint '$.id', priority smallint '$.priority', run_at bigint '$.run_at', gate tinyint '$.gate') l
join dibs_job j with (rowlock, updlock, forceseek) on j.id = l.id
where j.gate <> 3
option (force order, loop join, maxdop 1);
