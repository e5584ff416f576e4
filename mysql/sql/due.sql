-- Purpose: move grouped jobs that have become due to their groups.
-- Parameters: ?1 queue, ?2 now, ?3 how many.
-- Columns out: group.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    j.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.place = 2 and l.run_at <= ?2
      for update skip locked
    ) as locked
  from dibs_job j force index (later)
  where j.place = 2 and j.queue = ?1 and j.run_at <= ?2
  having locked is not null
  order by j.run_at
  limit ?3
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.gate = 1
-- then
select j.group_key
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
