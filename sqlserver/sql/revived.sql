-- Purpose: find the jobs that were cancelled because of some.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id.
-- Concurrency: in the transaction that puts them back.
declare
  @ids nvarchar(max) = ?1;
select f.id
from openjson(@ids) with (id bigint '$') i
join dibs_finished f with (index (by_cause), forceseek) on f.cause = i.id
option (force order, loop join, maxdop 1);
