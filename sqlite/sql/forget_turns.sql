-- Purpose: begin the turns of a queue that has become fair: take away those that jobs have from a time when it was fair
--   before. In a strict queue jobs that have been started get the first turn, as they hold their places.
-- Parameters: ?1 queue, ?2 whether it is strict.
-- Columns out: none.
-- Concurrency: the only write transaction of the file.
update dibs_job
set
  turn = case when ?2 and attempt > 0 then 1 end,
  admitted = case when ?2 and attempt > 0 then 0 end
where queue = ?1 and group_key is not null and gate in (0, 3)
