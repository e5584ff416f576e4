-- Purpose: find jobs that others come after and that do not know it, as another transaction has locked them.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: a plain read.
declare
  @ids nvarchar(max) = ?1;
select j.id
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (forceseek) on j.id = i.id
where j.followed = 0 and exists (
    select 1
    from dibs_edge e
    where e.parent = j.id and e.stage = 1
  )
option (force order, loop join, maxdop 1);
