-- Purpose: find the claims whose leases the sweep must look at.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: token, ids as a JSON array.
-- Concurrency: it locks the claims, and passes over those that another sweep has locked.
declare
  @now bigint = ?1,
  @n int = ?2;
select top (@n)
  l.token,
  l.ids
from dibs_claim c with (index (by_check), forceseek)
join dibs_claim l with (rowlock, updlock, readpast, readcommittedlock, forceseek) on l.token = c.token
where c.check_at <= @now and l.check_at <= @now
order by c.check_at
option (force order, loop join, maxdop 1);
