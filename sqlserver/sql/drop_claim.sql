-- Purpose: forget a claim all of whose jobs were finished in one call; the sweep
--   forgets the others.
-- Parameters: ?1 token, ?2 how many of its jobs were finished.
-- Columns out: none.
-- Concurrency: in the transaction of the finish. It passes over the claim if a sweep looks at it just now, which then forgets it.
declare
  @token binary(16) = ?1,
  @n int = ?2;
delete from c
from dibs_claim c with (rowlock, updlock, readpast, readcommittedlock, forceseek)
where c.token = @token and (select count(*) from openjson(c.ids) i) = @n;
