-- Purpose: list waiting and blocked jobs, or all that are not final, newest first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, ?4 state, each '' for all; ?5 only ids
--   below this one; ?6 how many; ?7 how many jobs to look at; ?8 worker, ?9 a part of the last
--   error and ?10 of the payload, each '' for all; ?11 whether only jobs whose run_at has not come.
-- Columns out: whether the row only marks how far the list has looked; id; how many jobs it
--   waits for, 1,000 at most; the columns of live_job. If the list stops before it has ?6 jobs or all, one row is the last job
--   that it has looked at.
-- Concurrency: one snapshot; locks nothing. Jobs are read along the primary key, in the order of the inner
--   list, until ?6 are found. If only queue and state narrow it, it looks at all.
with matched (id) as materialized (
  select id
  from (
    select
      id,
      iif(
        ?1 in ('', queue)
          and ?2 in ('', kind)
          and (?3 = '' or group_key = ?3)
          and (?8 = '' or worker = ?8)
          and (?9 = '' or instr(iif(json_valid(errors), json_extract(errors, '$[#-1].error'), ''), ?9) > 0)
          and (?10 = '' or instr(payload, ?10) > 0)
          and ?4 in ('', case when token is not null then 'running' when gate in (1, 5) then 'blocked' else 'waiting' end)
          and (not ?11 or run_at > (
            select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
            from dibs_clock
          )),
        1,
        0
      ) as matches
    from dibs_job
    where id < ?5
    order by id desc
    limit iif(?2 <> '' or ?3 <> '' or ?8 <> '' or ?9 <> '' or ?10 <> '' or ?11, ?7, -1)
  )
  where matches
  limit ?6
), page (id, searched) as (
  select id, 0
  from matched
  union all
  select id, searched
  from (
    select id, 1 as searched
    from dibs_job
    where id < ?5
      and (?2 <> '' or ?3 <> '' or ?8 <> '' or ?9 <> '' or ?10 <> '' or ?11)
      and (select count(*) from matched) < ?6
    order by id desc
    limit 1 offset ?7 - 1
  )
)
select
  p.searched,
  p.id,
  (select count(*) from (select 1 from dibs_edge e where e.child = p.id and e.stage = 1 limit 1000)),
  v.*
from page p
cross join dibs_live_job v on v.id = p.id
