-- Purpose: note how long a group's rate holds up its jobs.
-- Parameters: ?1 queue, ?2 group; ?3 when the jobs that hold its places may start; ?4 when the
--   group is to be settled anew, or null.
-- Columns out: none.
-- Concurrency: the only write transaction of the file, which has given the group's places.
insert into dibs_rate (queue, group_key, not_before, held_until)
values (?1, ?2, ?3, ?4)
on conflict (queue, group_key) do update
set
  not_before = excluded.not_before,
  held_until = excluded.held_until
where not_before <> excluded.not_before or held_until is not excluded.held_until
