-- Purpose: list the groups of a queue that have settings of their own, and of those that its
--   rate for groups holds up the 1,000 that may go on first.
-- Parameters: ?1 queue.
-- Columns out: group, limit or 0, rate n, per in microseconds, burst, held until or null.
-- Concurrency: a plain read of one snapshot.
select
  g.group_key,
  coalesce(l.places, 0),
  coalesce(r.n, 0),
  coalesce(r.per, 0),
  coalesce(r.burst, 0),
  case when r.held_until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) then r.held_until end
from (
  select group_key from dibs_group_limit where queue = ?1
  union
  select group_key from dibs_rate where queue = ?1 and group_key <> '' and n > 0
  union
  select h.group_key from (
    select group_key
    from dibs_rate force index (held)
    where queue = ?1 and group_key <> '' and n = 0 and held_until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
    order by held_until
    limit 1000
  ) h
) g
left join dibs_group_limit l on l.queue = ?1 and l.group_key = g.group_key
left join dibs_rate r on r.queue = ?1 and r.group_key = g.group_key
order by g.group_key
