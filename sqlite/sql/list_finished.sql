-- Purpose: list jobs of one final state, last finished first.
-- Parameters: ?1 queue, ?2 kind, ?3 group, each '' for all; ?4 state; ?5 time, or null for all, and ?6 id
--   before which the list begins; ?7 how many; ?8 how many jobs to look at; ?9 worker, ?10 a
--   part of the last error and ?11 of the payload, each '' for all; ?12 time of the first end.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   ended_job. If the list stops before it has ?7 jobs or all, one row is the first
--   job that it has not looked at.
-- Concurrency: one snapshot of finished rows only; locks nothing. Each queue contributes
--   its own newest jobs. If anything but queue, state and time narrows the list, each queue looks
--   at 100 jobs and its share of ?8, and the list ends at the latest time where one of them stops.
with asked (name) as materialized (
  select name
  from dibs_queue
  where ?1 in ('', name)
), bound (finished_at, id) as materialized (
  select b.finished_at, b.id
  from asked q
  cross join dibs_finished b on b.id = (
    select x.id
    from dibs_finished x
    where (?2 <> '' or ?3 <> '' or ?9 <> '' or ?10 <> '' or ?11 <> '')
      and x.queue = q.name and x.state = ?4
      and (x.finished_at, x.id) < (coalesce(?5, 9223372036854775807), ?6)
      and x.finished_at >= ?12
    order by x.finished_at desc, x.id desc
    limit 1 offset 99 + ?8 / (select count(*) from asked)
  )
  order by b.finished_at desc, b.id desc
  limit 1
), page (id, searched) as materialized (
  select o.id, coalesce(o.id = (select id from bound), 0)
  from asked q
  cross join dibs_finished o on o.id in (
    select x.id
    from dibs_finished x
    where x.queue = q.name and x.state = ?4
      and (x.finished_at, x.id) < (coalesce(?5, 9223372036854775807), ?6)
      and (x.finished_at, x.id) >= (
        coalesce((select finished_at from bound), ?12),
        coalesce((select id from bound), -9223372036854775808)
      )
      and (
        x.id = (select id from bound)
        or (
          ?2 in ('', x.kind)
          and (?3 = '' or x.group_key = ?3)
          and (?9 = '' or x.worker = ?9)
          and (?10 = '' or instr(iif(json_valid(x.errors), json_extract(x.errors, '$[#-1].error'), ''), ?10) > 0)
          and (?11 = '' or instr(x.payload, ?11) > 0)
        )
      )
    order by x.finished_at desc, x.id desc
    limit ?7
  )
  order by o.finished_at desc, o.id desc
  limit ?7
)
select p.searched, p.id, 0, v.*
from page p
cross join dibs_ended_job v on v.id = p.id
