-- Purpose: count the jobs that were cancelled because of a job.
-- Parameters: ?1 id; ?2 how many are counted at most.
-- Columns out: how many they are.
-- Concurrency: a plain read of an index that has only such jobs; locks nothing.
declare
  @id bigint = ?1,
  @n int = ?2;
select count(*)
from (
  select top (@n) 1 as one
  from dibs_finished f with (index (by_cause), forceseek)
  where f.cause = @id
) c;
