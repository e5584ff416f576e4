-- Purpose: find out how far the statements of a round have looked: mend_leases.sql,
--   mend_claims.sql, mend_groups.sql.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: the last id, 0 if there were fewer than ?2.
-- Concurrency: in the transaction of the sweep.
declare
  @after bigint = ?1,
  @n int = ?2;
select case when count(*) = @n then max(l.id) else 0 end
from (
  select top (@n) j.id
  from dibs_job j with (forceseek)
  where j.id > @after
  order by j.id
) l;
