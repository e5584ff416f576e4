-- Purpose: write what a queue's or a group's rate has saved up after starts.
-- Parameters: ?1 queue, ?2 group, empty for the queue itself; ?3 full_ns (package bucket);
--   ?4 when the next job may start.
-- Columns out: none.
-- Concurrency: in a turn.
insert into dibs_rate (queue, group_key, full_ns, not_before)
values (?1, ?2, ?3, ?4)
on duplicate key update
  full_ns = values(full_ns),
  not_before = case when group_key = '' then values(not_before) else not_before end
