-- Purpose: note that others come after live jobs.
-- Parameters: ?1 a JSON array of ids.
-- Columns out: none.
-- Concurrency: in the transaction that then looks whether some of them have ended. It passes over jobs that others have locked:
--   unfollowed.sql finds them.
declare
  @ids nvarchar(max) = ?1;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select j.id
from openjson(@ids) with (id bigint '$') i
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = i.id
where j.followed = 0 and exists (select 1 from dibs_edge e where e.parent = j.id and e.stage = 1)
option (force order, loop join, maxdop 1);
update j
set followed = 1
from @jobs i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
