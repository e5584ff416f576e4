-- Purpose: give free places of groups to their first blocked jobs.
-- Parameters: ?1 queue, ?2 a JSON array of [group, how many, a JSON array of turns to take over, each [turn, admitted], or null in a queue
--   that is not fair, the turn after these, number of the admission].
-- Columns out: the group of each job.
-- Concurrency: the places were counted in the same write transaction (places.sql).
-- A walk along the index: each step goes from a job to the next one of its group, so only those are read that get places.
with recursive walk (nth, id, wanted) as (
  select
    1,
    (
      select b.id
      from dibs_job b indexed by dibs_job_blocked
      where b.queue = ?1 and b.group_key = i.value ->> 0 and b.gate = 1
      order by b.priority, b.run_at, b.id
      limit 1
    ),
    i.value
  from json_each(?2) i
  union all
  select
    w.nth + 1,
    (
      select b.id
      from dibs_job b indexed by dibs_job_blocked
      where b.queue = ?1 and b.group_key = j.group_key and b.gate = 1
        and (b.priority, b.run_at, b.id) > (j.priority, j.run_at, j.id)
      order by b.priority, b.run_at, b.id
      limit 1
    ),
    w.wanted
  from walk w
  cross join dibs_job j on j.id = w.id
  where w.nth < w.wanted ->> 1
)
update dibs_job
set
  gate = 0,
  turn = case
    when w.fair then coalesce(w.wanted ->> ('$[2][' || (w.nth - 1) || '][0]'), (w.wanted ->> 3) + w.nth - 1 - w.taken)
    else turn
  end,
  admitted = case
    when w.fair then coalesce(w.wanted ->> ('$[2][' || (w.nth - 1) || '][1]'), w.wanted ->> 4)
    else admitted
  end
from (
  select nth, id, wanted, wanted ->> 2 is not null as fair, json_array_length(wanted, '$[2]') as taken
  from walk
  where id is not null
) w
where dibs_job.id = w.id
returning group_key
