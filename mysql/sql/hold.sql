-- Purpose: note how long a group's rate holds up its jobs.
-- Parameters: ?1 queue, ?2 group; ?3 when the jobs that hold its places may start; ?4 when the
--   group is to be settled anew, or null.
-- Columns out: none.
-- Concurrency: in the turn to admit, which has given the group's places.
insert into dibs_rate (queue, group_key, not_before, held_until)
values (?1, ?2, ?3, ?4)
on duplicate key update
  not_before = values(not_before),
  held_until = values(held_until)
