-- Purpose: list jobs of one final state, last finished first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 state; ?5 time, or null for all, and ?6 id
--   before which the list begins; ?7 how many; ?8 how many jobs to look at; ?9 worker, ?10 a
--   part of the last error and ?11 of the payload, each '' for all; ?12 time of the first end.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   ended_job. If the list stops before it has ?7 jobs or all, one row is the first
--   job that it has not looked at.
-- Concurrency: one snapshot of finished rows only; locks nothing. Jobs are read along the index by time, of a queue or of all. If
--   anything but queue, state and time narrows the list, it looks at ?8 jobs.
with looked (id, matches, nth) as (
  select id, matches, nth
  from (
    select x.id, x.finished_at, 1 as matches, 0 as nth
    from dibs_finished x force index (by_end)
    where ?1 = '' and x.state = ?4
      and (x.finished_at < coalesce(?5, 9223372036854775807) or x.finished_at = ?5 and x.id < ?6)
      and x.finished_at >= ?12
      and (?2 = '' and ?3 = '' and ?9 = '' and ?10 = '' and ?11 = '')
    order by x.finished_at desc, x.id desc
    limit ?7
  ) a
  union all
  select id, matches, nth
  from (
    select
      x.id,
      ?2 in ('', x.kind)
        and (?3 = '' or x.group_key = ?3)
        and (?9 = '' or x.worker = ?9)
        and (?10 = '' or locate(?10 collate utf8mb4_bin, if(json_valid(convert(x.errors using utf8mb4)), json_unquote(json_extract(convert(x.errors using utf8mb4), concat('$[', greatest(json_length(convert(x.errors using utf8mb4)), 1) - 1, '].error'))), '')) > 0)
        and (?11 = '' or locate(?11 collate utf8mb4_bin, convert(x.payload using utf8mb4)) > 0) as matches,
      row_number() over (order by x.finished_at desc, x.id desc) as nth
    from (
      select y.id, y.finished_at, y.kind, y.group_key, y.worker, y.errors, y.payload
      from dibs_finished y force index (by_end)
      where ?1 = '' and y.state = ?4
        and (y.finished_at < coalesce(?5, 9223372036854775807) or y.finished_at = ?5 and y.id < ?6)
        and y.finished_at >= ?12
        and (?2 <> '' or ?3 <> '' or ?9 <> '' or ?10 <> '' or ?11 <> '')
      order by y.finished_at desc, y.id desc
      limit ?8+1
    ) x
  ) b
  union all
  select id, matches, nth
  from (
    select x.id, x.finished_at, 1 as matches, 0 as nth
    from dibs_finished x force index (by_time)
    where ?1 <> '' and x.queue = ?1 and x.state = ?4
      and (x.finished_at < coalesce(?5, 9223372036854775807) or x.finished_at = ?5 and x.id < ?6)
      and x.finished_at >= ?12
      and (?2 = '' and ?3 = '' and ?9 = '' and ?10 = '' and ?11 = '')
    order by x.finished_at desc, x.id desc
    limit ?7
  ) a
  union all
  select id, matches, nth
  from (
    select
      x.id,
      ?2 in ('', x.kind)
        and (?3 = '' or x.group_key = ?3)
        and (?9 = '' or x.worker = ?9)
        and (?10 = '' or locate(?10 collate utf8mb4_bin, if(json_valid(convert(x.errors using utf8mb4)), json_unquote(json_extract(convert(x.errors using utf8mb4), concat('$[', greatest(json_length(convert(x.errors using utf8mb4)), 1) - 1, '].error'))), '')) > 0)
        and (?11 = '' or locate(?11 collate utf8mb4_bin, convert(x.payload using utf8mb4)) > 0) as matches,
      row_number() over (order by x.finished_at desc, x.id desc) as nth
    from (
      select y.id, y.finished_at, y.kind, y.group_key, y.worker, y.errors, y.payload
      from dibs_finished y force index (by_time)
      where ?1 <> '' and y.queue = ?1 and y.state = ?4
        and (y.finished_at < coalesce(?5, 9223372036854775807) or y.finished_at = ?5 and y.id < ?6)
        and y.finished_at >= ?12
        and (?2 <> '' or ?3 <> '' or ?9 <> '' or ?10 <> '' or ?11 <> '')
      order by y.finished_at desc, y.id desc
      limit ?8+1
    ) x
  ) b
), page (id, searched) as (
  select l.id, 0
  from looked l
  where l.matches and l.nth <= ?8
  union all
  select l.id, 1
  from looked l
  where l.nth = ?8+1
)
select p.searched, p.id as at, 0, v.*
from (
  select c.id, c.searched
  from page c
  straight_join dibs_finished f force index (primary) on f.id = c.id
  order by f.finished_at desc, f.id desc
  limit ?7
) p
straight_join dibs_ended_job v on v.id = p.id
