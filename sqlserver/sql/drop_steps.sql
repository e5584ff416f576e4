-- Purpose: delete the steps of jobs that are deleted, or become new ones.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the jobs.
declare
  @ids nvarchar(max) = ?1;
delete from s
from openjson(@ids) with (id bigint '$') i
join dibs_step s with (rowlock, updlock, forceseek) on s.job = i.id
option (force order, loop join, maxdop 1);
