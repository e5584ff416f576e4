-- Purpose: note how long the rates of groups hold up their jobs.
-- Parameters: ?1 a JSON array of [group, when the jobs that hold its places may start, when the
--   group is to be settled anew or null]; ?2 queue.
-- Columns out: none.
-- Concurrency: in the turn to admit, which has given the groups' places.
insert into dibs_rate (queue, group_key, not_before, held_until)
select ?2, i.name, i.not_before, i.held_until
from json_table(?1, '$[*]' columns (
  name varchar(255) character set utf8mb4 path '$[0]', not_before bigint path '$[1]', held_until bigint path '$[2]'
)) i
on duplicate key update
  not_before = values(not_before),
  held_until = values(held_until)
