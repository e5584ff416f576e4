-- Purpose: find the claims whose leases the sweep must look at.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: token, ids as a JSON array.
-- Concurrency: it locks the claims, and passes over those that another sweep has locked.
select
  token,
  ids
from dibs_claim force index (by_check)
where check_at <= ?1
order by check_at
limit ?2
for update skip locked
