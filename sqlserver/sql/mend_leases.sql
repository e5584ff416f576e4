-- Purpose: look at some live jobs, and end now the leases that are longer than any that a store
--   gives: only SQL by hand leaves such leases.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many, ?3 now.
-- Columns out: none.
-- Concurrency: in the transaction of the sweep. It passes over jobs that others have locked.
declare
  @after bigint = ?1,
  @n int = ?2,
  @now bigint = ?3;
declare @jobs table (id bigint primary key);
insert into @jobs (id)
select j.id
from (
  select top (@n) b.id
  from dibs_job b with (forceseek)
  where b.id > @after
  order by b.id
) l
join dibs_job j with (rowlock, updlock, readpast, readcommittedlock, forceseek) on j.id = l.id
where j.lease_until > @now + 90000000000
option (force order, loop join, maxdop 1);
set nocount off;
update j
set lease_until = @now
from @jobs i
join dibs_job j with (rowlock, updlock, forceseek) on j.id = i.id
option (force order, loop join, maxdop 1);
