-- Purpose: give a group its own limit.
-- Parameters: ?1 queue, ?2 group, ?3 places.
-- Columns out: none.
-- Concurrency: the group is settled in the same write transaction.
insert into dibs_group_limit (queue, group_key, places)
values (?1, ?2, ?3)
on conflict (queue, group_key) do update
set places = excluded.places
