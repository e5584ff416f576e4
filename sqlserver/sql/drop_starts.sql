-- Purpose: delete starts that were counted.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the turn to admit.
declare
  @ids nvarchar(max) = ?1;
delete from t
from openjson(@ids) with (id bigint '$') i
join dibs_start t with (rowlock, updlock, forceseek) on t.id = i.id
option (force order, loop join, maxdop 1);
