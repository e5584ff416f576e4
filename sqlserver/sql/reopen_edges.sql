-- Purpose: have jobs that are put back wait again for those that they come after, unless these are deleted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that puts the jobs back, which then looks which of the others have ended.
declare
  @ids nvarchar(max) = ?1;
update e
set stage = case
  when exists (select 1 from dibs_job j where j.id = e.parent) then 1
  when exists (select 1 from dibs_finished f where f.id = e.parent) then 1
  else 0
end
from openjson(@ids) with (id bigint '$') i
join dibs_edge e with (rowlock, updlock, forceseek) on e.child = i.id
option (force order, loop join, maxdop 1);
