-- Purpose: list the finished jobs of one queue in one state, last finished first.
-- Parameters: ?1 queue, ?2 state, ?3 kind and ?4 group, each '' for all; only those
--   before the one that finished at ?5 with id ?6; ?7 how many.
-- Columns out: those of the view, in its order.
-- Concurrency: a plain read along the index by time; locks nothing.
select f.*
from dibs_ended_job f
where f.queue = ?1 and f.state = ?2
  and (f.finished_at, f.id) < (?5, ?6)
  and ?3 in ('', f.kind)
  and (?4 = '' or f.group_key = ?4)
order by f.finished_at desc, f.id desc
limit ?7
