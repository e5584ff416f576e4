-- Purpose: count the jobs that were cancelled because of a job.
-- Parameters: ?1 id; ?2 how many are counted at most.
-- Columns out: how many they are.
-- Concurrency: a plain read of an index that has only such jobs; locks nothing.
select count(*)
from (
  select 1
  from dibs_finished f
  where f.cause = ?1
  limit ?2
) c
