-- Purpose: find the claims whose leases the sweep must look at.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: token, ids as a JSON array.
-- Concurrency: the only write transaction of the file.
select
  token,
  ids
from dibs_claim
where check_at <= ?1
order by check_at
limit ?2
