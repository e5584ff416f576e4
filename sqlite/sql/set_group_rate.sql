-- Purpose: give a group a rate of its own.
-- Parameters: ?1 queue, ?2 group, ?3 n, ?4 per in microseconds, ?5 burst.
-- Columns out: none.
-- Concurrency: the group is settled in the same write transaction. What it has saved up, or
--   owes, stays.
insert into dibs_rate (queue, group_key, n, per, burst)
values (?1, ?2, ?3, ?4, ?5)
on conflict (queue, group_key) do update
set
  n = excluded.n,
  per = excluded.per,
  burst = excluded.burst,
  not_before = 0,
  held_until = null
