-- Purpose: delete the rows of groups that follow their queue's rate and have saved up all of it: a
--   group without a row counts as one of these.
-- Parameters: ?1 now, ?2 how many.
-- Columns out: none.
-- Concurrency: the only write transaction of the file. Reads only what it deletes, and groups
--   that are about to be settled.
delete from dibs_rate
where (queue, group_key) in (
  select queue, group_key
  from dibs_rate
  where n = 0 and group_key <> '' and full_ns <= ?1 * 1000 and not_before <= ?1 and held_until is null
  order by full_ns
  limit ?2
)
