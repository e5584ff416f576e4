-- Purpose: write what the rates of groups, or of a queue, have saved up after starts.
-- Parameters: ?1 a JSON array of [group or an empty text for the queue itself, full_ns (package bucket),
--   when the next job may start]; ?2 queue.
-- Columns out: none.
-- Concurrency: the only write transaction of the file, which has claimed the jobs.
insert into dibs_rate (queue, group_key, full_ns, not_before)
select ?2, i.value ->> 0, i.value ->> 1, i.value ->> 2
from json_each(?1) i
where true -- the parser needs it before on conflict
on conflict (queue, group_key) do update
set
  full_ns = excluded.full_ns,
  not_before = case when group_key = '' then excluded.not_before else not_before end
