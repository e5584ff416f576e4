-- Purpose: list running jobs, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 only ids below
--   this; ?5 how many; ?6 how many claimed jobs to look at; ?7 worker, ?8 a part of the last
--   error and ?9 of the payload, each '' for all.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   live_job. If the list stops before it has ?5 jobs or all, one row has the id of
--   the last job that it has looked at, which may have ended.
-- Concurrency: finds them in the log of claims instead of reading all live jobs, in one snapshot; locks
--   nothing. It looks at all claimed jobs, whatever ?6, as it has to sort them.
with found (id) as materialized (
  select j.id
  from dibs_claim c
  cross join json_each(c.ids) i
  cross join dibs_job j on j.id = i.value and j.token = c.token
  where j.id < ?4
    and ?1 in ('', j.queue)
    and ?2 in ('', j.kind)
    and (?3 = '' or j.group_key = ?3)
    and (?7 = '' or j.worker = ?7)
    and (?8 = '' or instr(iif(json_valid(j.errors), json_extract(j.errors, '$[#-1].error'), ''), ?8) > 0)
    and (?9 = '' or instr(j.payload, ?9) > 0)
  order by j.id desc
  limit ?5
)
select 0, p.id, 0, v.*
from found p
cross join dibs_live_job v on v.id = p.id
