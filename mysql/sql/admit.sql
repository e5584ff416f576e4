-- Purpose: give free places of a group to its first blocked jobs.
-- Parameters: ?1 queue, ?2 group, ?3 how many.
-- Columns out: none.
-- Concurrency: in the turn to admit. It passes over jobs that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    j.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.group_key = ?2 and l.place = 1
      for update skip locked
    ) as locked
  from dibs_job j force index (place)
  where j.queue = ?1 and j.group_key = ?2 and j.place = 1
  having locked is not null
  order by j.priority, j.run_at, j.id
  limit ?3
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.gate = 0
