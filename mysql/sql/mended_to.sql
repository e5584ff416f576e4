-- Purpose: find out how far the statements of a round have looked: mend_leases.sql,
--   mend_claims.sql, mend_groups.sql.
-- Parameters: ?1 look at jobs with a greater id, ?2 how many.
-- Columns out: the last id, 0 if there were fewer than ?2.
-- Concurrency: in the transaction of the sweep.
select case when count(*) = ?2 then max(l.id) else 0 end
from (
  select id
  from dibs_job
  where id > ?1
  order by id
  limit ?2
) l
