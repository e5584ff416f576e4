-- Purpose: list running jobs, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 only ids below
--   this; ?5 how many; ?6 how many claimed jobs to look at; ?7 worker, ?8 a part of the last
--   error and ?9 of the payload, each '' for all.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   live_job. If the list stops before it has ?5 jobs or all, one row has the id of
--   the last job that it has looked at, which may have ended.
-- Concurrency: finds them in the log of claims instead of reading all live jobs, in one snapshot; locks
--   nothing. It looks at all claimed jobs, whatever ?6, as it has to sort them.
with found (id) as (
  select x.id
  from dibs_claim c
  straight_join json_table(convert(c.ids using utf8mb4), '$[*]' columns (id bigint path '$')) i
  straight_join dibs_job x force index (primary) on x.id = i.id and x.token = c.token
  where x.id < ?4
    and ?1 in ('', x.queue)
    and ?2 in ('', x.kind)
    and (?3 = '' or x.group_key = ?3)
    and (?7 = '' or x.worker = ?7)
    and (?8 = '' or locate(?8 collate utf8mb4_bin, if(json_valid(convert(x.errors using utf8mb4)), json_unquote(json_extract(convert(x.errors using utf8mb4), concat('$[', greatest(json_length(convert(x.errors using utf8mb4)), 1) - 1, '].error'))), '')) > 0)
    and (?9 = '' or locate(?9 collate utf8mb4_bin, convert(x.payload using utf8mb4)) > 0)
    and ?6 > 0
  order by x.id desc
  limit ?5
)
select 0, p.id as at, 0, v.*
from found p
straight_join dibs_live_job v on v.id = p.id
