-- Purpose: begin the turns of a queue that has become fair: take away those that jobs have from a time when it was fair
--   before. In a strict queue jobs that have been started get the first turn, as they hold their places.
-- Parameters: ?1 queue, ?2 whether it is strict.
-- Columns out: none.
-- Concurrency: it passes over jobs that others have locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    j.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.place in (0, 3)
      for update skip locked
    ) as locked
  from dibs_job j force index (place)
  where j.queue = ?1 and j.group_key is not null and j.place in (0, 3)
  having locked is not null
  limit 1000000
) x
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.turn = case when ?2 and j.attempt > 0 then 1 end,
  j.admitted = case when ?2 and j.attempt > 0 then 0 end
