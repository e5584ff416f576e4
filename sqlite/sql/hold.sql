-- Purpose: note how long the rates of groups hold up their jobs.
-- Parameters: ?1 a JSON array of [group, when the jobs that hold its places may start, when the
--   group is to be settled anew or null]; ?2 queue.
-- Columns out: none.
-- Concurrency: the only write transaction of the file, which has given the groups' places.
insert into dibs_rate (queue, group_key, not_before, held_until)
select ?2, i.value ->> 0, i.value ->> 1, i.value ->> 2
from json_each(?1) i
where true -- the parser needs it before on conflict
on conflict (queue, group_key) do update
set
  not_before = excluded.not_before,
  held_until = excluded.held_until
where not_before <> excluded.not_before or held_until is not excluded.held_until
