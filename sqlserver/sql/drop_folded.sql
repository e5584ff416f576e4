-- Purpose: delete rows of counts that were added up.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in one transaction with the addition, so every snapshot has the same sums.
declare
  @ids nvarchar(max) = ?1;
delete from t
from openjson(@ids) with (id bigint '$') i
join dibs_tally t with (rowlock, updlock, forceseek) on t.id = i.id
option (force order, loop join, maxdop 1);
