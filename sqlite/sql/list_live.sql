-- Purpose: list jobs that are not final, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, ?4 state, each '' for all; ?5 only ids
--   below this; ?6 how many; ?7 worker, ?8 a part of the last error and ?9 of the payload,
--   each '' for all; ?10 the last id to look at; ?11 whether only jobs whose run_at is
--   after ?12, now.
-- Columns out: those of the view, in its order.
-- Concurrency: a plain read along the primary key; locks nothing.
select j.*
from dibs_live_job j
where j.id < ?5 and j.id >= ?10
  and ?1 in ('', j.queue)
  and ?2 in ('', j.kind)
  and (?3 = '' or j.group_key = ?3)
  and (?7 = '' or j.worker = ?7)
  and (?8 = '' or instr(iif(json_valid(j.errors), json_extract(j.errors, '$[#-1].error'), ''), ?8) > 0)
  and (?9 = '' or instr(j.payload, ?9) > 0)
  and ?4 in ('', j.state)
  and (not ?11 or j.run_at > ?12)
order by j.id desc
limit ?6
