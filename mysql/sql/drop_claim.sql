-- Purpose: forget a claim all of whose jobs were finished in one call; the sweep
--   forgets the others.
-- Parameters: ?1 token, ?2 how many of its jobs were finished.
-- Columns out: none.
-- Concurrency: in the transaction of the finish. It passes over the claim if a sweep looks at it just now, which then forgets it.
select max(hex(x.token)) into @dibs_token
from (
  select token
  from dibs_claim force index (primary)
  where token = ?1 and json_length(convert(ids using utf8mb4)) = ?2
  limit 1
  for update skip locked
) x
-- then
delete from dibs_claim
where token = unhex(@dibs_token)
