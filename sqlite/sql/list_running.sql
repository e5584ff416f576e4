-- Purpose: list running jobs, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 only ids below this;
--   ?5 how many; ?6 worker, ?7 a part of the last error and ?8 of the payload, each '' for all.
-- Columns out: those of the view, in its order.
-- Concurrency: finds them in the log of claims instead of reading all live jobs; locks
--   nothing.
select j.*
from dibs_claim c
cross join json_each(c.ids) i
cross join dibs_live_job j on j.id = i.value and j.token = c.token
where j.id < ?4
  and ?1 in ('', j.queue)
  and ?2 in ('', j.kind)
  and (?3 = '' or j.group_key = ?3)
  and (?6 = '' or j.worker = ?6)
  and (?7 = '' or instr(iif(json_valid(j.errors), json_extract(j.errors, '$[#-1].error'), ''), ?7) > 0)
  and (?8 = '' or instr(j.payload, ?8) > 0)
order by j.id desc
limit ?5
