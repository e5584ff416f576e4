-- Purpose: delete periods of unique keys that have passed.
-- Parameters: ?1 now, ?2 how many at most.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
delete from dibs_unique_window
where (queue, unique_key) in (
  select queue, unique_key
  from dibs_unique_window
  where until <= ?1
  limit ?2
)
