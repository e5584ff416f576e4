-- Purpose: list the finished jobs of one queue in one state, last finished first.
-- Parameters: ?1 queue, ?2 state, ?3 kind and ?4 group, each '' for all; only those
--   before the one that finished at ?5 with id ?6; ?7 how many; ?8 worker, ?9 a part of the
--   last error and ?10 of the payload, each '' for all; ?11 time and ?12 id of the last to look at.
-- Columns out: those of the view, in its order.
-- Concurrency: a plain read along the index by time; locks nothing.
select f.*
from dibs_ended_job f
where f.queue = ?1 and f.state = ?2
  and (f.finished_at, f.id) < (?5, ?6)
  and (f.finished_at, f.id) >= (?11, ?12)
  and ?3 in ('', f.kind)
  and (?4 = '' or f.group_key = ?4)
  and (?8 = '' or f.worker = ?8)
  and (?9 = '' or instr(iif(json_valid(f.errors), json_extract(f.errors, '$[#-1].error'), ''), ?9) > 0)
  and (?10 = '' or instr(f.payload, ?10) > 0)
order by f.finished_at desc, f.id desc
limit ?7
