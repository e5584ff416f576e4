-- Purpose: give a group a rate of its own.
-- Parameters: ?1 queue, ?2 group, ?3 n, ?4 per in microseconds, ?5 burst.
-- Columns out: none.
-- Concurrency: in the turn to set the group; an admission gives its places. What it has saved up, or
--   owes, stays.
insert into dibs_rate (queue, group_key, n, per, burst)
values (?1, ?2, ?3, ?4, ?5)
on duplicate key update
  n = values(n),
  per = values(per),
  burst = values(burst),
  not_before = 0,
  held_until = null
