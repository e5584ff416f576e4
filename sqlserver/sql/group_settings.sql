-- Purpose: list the groups of a queue that have settings of their own, and of those that its
--   rate for groups holds up the 1,000 that may go on first.
-- Parameters: ?1 queue.
-- Columns out: group, limit or 0, rate n, per in microseconds, burst, held until or null.
-- Concurrency: a plain read of one snapshot.
declare
  @queue varbinary(255) = ?1;
declare @now bigint = datediff_big(microsecond, '19700101', sysutcdatetime());
select
  g.group_key,
  coalesce(l.places, 0),
  coalesce(r.n, 0),
  coalesce(r.per, 0),
  coalesce(r.burst, 0),
  case when r.held_until > @now then r.held_until end
from (
  select group_key from dibs_group_limit where queue = @queue
  union
  select group_key from dibs_rate where queue = @queue and group_key <> 0x and n > 0
  union
  select h.group_key
  from (
    select top (1000) group_key
    from dibs_rate with (index (held), forceseek)
    where queue = @queue and group_key <> 0x and n = 0 and held_until > @now
    order by held_until
  ) h
) g
left join dibs_group_limit l on l.queue = @queue and l.group_key = g.group_key
left join dibs_rate r on r.queue = @queue and r.group_key = g.group_key
order by g.group_key;
