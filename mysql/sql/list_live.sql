-- Purpose: list waiting and blocked jobs, or all that are not final, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, ?4 state, each '' for all; ?5 only ids
--   below this one; ?6 how many; ?7 how many jobs to look at; ?8 worker, ?9 a part of the last
--   error and ?10 of the payload, each '' for all; ?11 whether only jobs whose run_at has not come.
-- Columns out: whether the row only marks how far the list has looked; id; how many jobs it
--   waits for, 1,000 at most; the columns of live_job. If the list stops before it has ?6 jobs or all, one row is the last job
--   that it has looked at.
-- Concurrency: one snapshot; locks nothing. Jobs are read along the primary key, in the order of the inner
--   list, until ?6 are found. If only queue and state narrow it, it looks at all.
with looked (id, matches, nth) as (
  select a.id, 1, 0
  from (
    select x.id
    from dibs_job x force index (primary)
    where x.id < ?5 and not (?2 <> '' or ?3 <> '' or ?8 <> '' or ?9 <> '' or ?10 <> '' or ?11)
      and ?1 in ('', x.queue)
      and ?4 in ('', case when x.gate = 3 then 'running' when x.gate in (1, 5) then 'blocked' else 'waiting' end)
    order by x.id desc
    limit ?6
  ) a
  union all
  select b.id, b.matches, b.nth
  from (
    select
      x.id,
      ?1 in ('', x.queue)
        and ?2 in ('', x.kind)
        and (?3 = '' or x.group_key = ?3)
        and (?8 = '' or x.worker = ?8)
        and (?9 = '' or locate(?9 collate utf8mb4_bin, if(json_valid(convert(x.errors using utf8mb4)), json_unquote(json_extract(convert(x.errors using utf8mb4), concat('$[', greatest(json_length(convert(x.errors using utf8mb4)), 1) - 1, '].error'))), '')) > 0)
        and (?10 = '' or locate(?10 collate utf8mb4_bin, convert(x.payload using utf8mb4)) > 0)
        and ?4 in ('', case when x.gate = 3 then 'running' when x.gate in (1, 5) then 'blocked' else 'waiting' end)
        and (not ?11 or x.run_at > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) as matches,
      row_number() over (order by x.id desc) as nth
    from (
      select y.id, y.queue, y.kind, y.group_key, y.worker, y.errors, y.payload, y.gate, y.run_at
      from dibs_job y force index (primary)
      where y.id < ?5 and (?2 <> '' or ?3 <> '' or ?8 <> '' or ?9 <> '' or ?10 <> '' or ?11)
      order by y.id desc
      limit ?7
    ) x
  ) b
), matched (id) as (
  select l.id
  from looked l
  where l.matches
  order by l.id desc
  limit ?6
), page (id, searched) as (
  select m.id, 0
  from matched m
  union all
  select l.id, 1
  from looked l
  where l.nth = ?7 and (select count(*) from matched) < ?6
)
select
  p.searched,
  p.id as at,
  least((select count(*) from dibs_edge e where e.child = p.id and e.stage = 1), 1000),
  v.*
from page p
straight_join dibs_live_job v on v.id = p.id
