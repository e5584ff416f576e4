-- Purpose: find where a list of one queue's finished jobs stops that few jobs match.
-- Parameters: ?1 queue, ?2 state; only those before the one that finished at ?3 with id ?4, and
--   from time ?5 on; ?6 how many jobs the list looks at, less one.
-- Columns out: when the last job that it looks at finished; its id. No row if there are fewer.
-- Concurrency: a plain read along the index by time; locks nothing.
select finished_at, id
from dibs_finished
where queue = ?1 and state = ?2
  and (finished_at, id) < (?3, ?4)
  and finished_at >= ?5
order by finished_at desc, id desc
limit 1 offset ?6
