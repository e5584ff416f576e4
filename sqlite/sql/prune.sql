-- Purpose: delete the oldest finished jobs of a queue in one state.
-- Parameters: ?1 queue, ?2 state, ?3 only jobs that finished up to this time, ?4 how many.
-- Columns out: none.
-- Concurrency: the only write transaction of the file. Reads only what it deletes, and passes over the index entries of jobs
--   that are kept for others that come after them.
delete from dibs_finished
where id in (
  select id
  from dibs_finished
  where queue = ?1 and state = ?2 and finished_at <= ?3 and followed = 0
  order by finished_at, id
  limit ?4
)
