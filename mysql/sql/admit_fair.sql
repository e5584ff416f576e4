-- Purpose: as admit.sql, and give the jobs turns.
-- Parameters: ?1 queue, ?2 group, ?3 how many, ?4 a JSON array of turns to take over, each [turn, admitted],
--   ?5 the turn after these, ?6 number of the admission.
-- Columns out: none.
-- Concurrency: as admit.sql.
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
update json_table(@dibs_ids, '$[*]' columns (nth for ordinality, id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set
  j.gate = 0,
  j.turn = coalesce(json_value(?4, concat('$[', i.nth - 1, '][0]')), ?5 + i.nth - 1 - json_length(?4)),
  j.admitted = coalesce(json_value(?4, concat('$[', i.nth - 1, '][1]')), ?6)
