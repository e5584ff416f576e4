-- Purpose: take places of a group from waiting jobs: from all loose ones (places.sql), and
--   from the last of the started ones if the limit has become too low for them.
-- Parameters: ?1 queue, ?2 group, ?3 now, ?4 whether the queue is strict, ?5 how many
--   started ones there is room for.
-- Columns out: gate; whether the job was a started one; the turn and the admission of a fair queue, or null.
-- Concurrency: in the turn to admit; admit.sql gives the places to the first jobs in the same transaction. It passes over jobs that
--   others have locked, and sorts the others once they are locked.
select json_arrayagg(x.id) into @dibs_ids
from (
  select
    j.id,
    (
      select l.id
      from dibs_job l force index (primary)
      where l.id = j.id and l.group_key = ?2 and l.place = 0
      for update skip locked
    ) as locked
  from dibs_job j force index (place)
  where j.queue = ?1 and j.group_key = ?2 and j.place = 0
  having locked is not null
  limit 10000000
) x
-- then
select json_arrayagg(y.id) into @dibs_ids
from (
  select
    x.id,
    x.started,
    row_number() over (partition by x.started order by x.priority, x.run_at, x.id) as nth
  from (
    select j.id, j.priority, j.run_at, ?4 and j.attempt > 0 as started
    from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
    straight_join dibs_job j force index (primary) on j.id = i.id
  ) x
) y
where not y.started or y.nth > ?5
-- then
update json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
set j.gate = case when j.run_at <= ?3 then 1 else 2 end
-- then
select j.gate, ?4 and j.attempt > 0, j.turn, j.admitted
from json_table(@dibs_ids, '$[*]' columns (id bigint path '$')) i
straight_join dibs_job j force index (primary) on j.id = i.id
