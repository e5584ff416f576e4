-- Purpose: delete the steps of the jobs that prune.sql deletes next.
-- Parameters: those of prune.sql.
-- Columns out: none.
-- Concurrency: in one transaction with prune.sql. It locks the jobs, and passes over those that others have locked, and over the
--   index entries of jobs that are kept for others that come after them. Their edges go, too.
select json_arrayagg(x.id) into @dibs_pruned
from (
  select
    f.id,
    (
      select l.id
      from dibs_finished l force index (primary)
      where l.id = f.id and l.queue = ?1 and l.state = ?2 and l.finished_at <= ?3 and l.followed = 0
      for update skip locked
    ) as locked
  from dibs_finished f force index (by_time)
  where f.queue = ?1 and f.state = ?2 and f.finished_at <= ?3 and f.followed = 0
  having locked is not null
  order by f.finished_at, f.id
  limit ?4
) x
-- then
delete e
from json_table(@dibs_pruned, '$[*]' columns (id bigint path '$')) i
straight_join dibs_edge e force index (primary) on e.child = i.id
-- then
delete s
from json_table(@dibs_pruned, '$[*]' columns (id bigint path '$')) i
straight_join dibs_step s force index (by_job) on s.job = i.id
