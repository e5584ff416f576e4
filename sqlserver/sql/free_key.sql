-- Purpose: take the unique key from jobs that hold it only until they are claimed.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction of the claim.
declare
  @ids nvarchar(max) = ?1;
update j
set unique_held = 0
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
