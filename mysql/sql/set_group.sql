-- Purpose: give a group its own limit.
-- Parameters: ?1 queue, ?2 group, ?3 places.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places.
insert into dibs_group_limit (queue, group_key, places)
values (?1, ?2, ?3)
on duplicate key update places = values(places)
