-- Purpose: read the tokens of running jobs, locked or not.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: id, token, end of the lease.
-- Concurrency: a plain read, which waits for nobody.
declare
  @ids nvarchar(max) = ?1;
select j.id, j.token, j.lease_until
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (forceseek) on j.id = i.id
where j.token is not null
option (force order, loop join, maxdop 1);
