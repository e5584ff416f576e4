-- Purpose: delete the edges of jobs that have ended and are not kept.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has looked at the edges.
declare
  @ids nvarchar(max) = ?1;
delete from e
from openjson(@ids) with (id bigint '$') i
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = i.id
where not exists (select 1 from dibs_job j where j.id = i.id)
  and not exists (select 1 from dibs_finished f where f.id = i.id)
option (force order, loop join, maxdop 1);
