-- Purpose: note the flow of new jobs, and whether others come after them.
-- Parameters: ?1 a JSON array of objects: id, followed; ?2 flow.
-- Columns out: none.
-- Concurrency: in the transaction that has inserted the jobs.
-- The insert does not do it, so that it stays as it is for jobs of no flow.
declare
  @jobs nvarchar(max) = ?1,
  @flow bigint = ?2;
update j
set
  flow = @flow,
  followed = l.followed
from openjson(@jobs) with (id bigint '$.id', followed bit '$.followed') l
join dibs_job j with (rowlock, updlock, forceseek) on j.id = l.id
option (force order, loop join, maxdop 1);
