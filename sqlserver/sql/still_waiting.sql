-- Purpose: find those of some jobs that wait for others.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that releases the rest.
-- One lookup for each job, however many it comes after.
declare
  @ids nvarchar(max) = ?1;
select i.id
from openjson(@ids) with (id bigint '$') i
where exists (
    select 1
    from dibs_edge e with (index (open_edge), forceseek)
    where e.child = i.id and e.stage = 1
  )
order by i.id;
