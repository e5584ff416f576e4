-- Purpose: delete finished jobs, for good or because they were put back.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the change of the counts and, if they were put back, with their
--   insertion among the live jobs. Those that are not put back lose their edges.
declare
  @ids nvarchar(max) = ?1;
delete from e
from openjson(@ids) with (id bigint '$') i
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = i.id
where not exists (select 1 from dibs_job j where j.id = i.id)
option (force order, loop join, maxdop 1);
delete from f
from openjson(@ids) with (id bigint '$') i
join dibs_finished f with (rowlock, updlock, forceseek) on f.id = i.id
option (force order, loop join, maxdop 1);
