-- Purpose: note of finished jobs whether they are kept because jobs that come after them have not ended.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that has changed their edges.
declare
  @ids nvarchar(max) = ?1;
update f
set followed = 1 - f.followed
from openjson(@ids) with (id bigint '$') i
join dibs_finished f with (rowlock, updlock, forceseek) on f.id = i.id
where f.followed <> case when exists (
    select 1
    from dibs_edge e
    where e.parent = f.id and e.stage < 2
  ) then 1 else 0 end
option (force order, loop join, maxdop 1);
