-- Purpose: read a group's own limit and rate, before a change of them.
-- Parameters: ?1 queue, ?2 group.
-- Columns out: limit or 0, rate n or 0, per in microseconds, burst; always one row.
-- Concurrency: a plain read; a change reads again where it writes.
declare
  @queue varbinary(255) = ?1,
  @group varbinary(255) = ?2;
select
  coalesce(l.places, 0),
  coalesce(r.n, 0),
  coalesce(r.per, 0),
  coalesce(r.burst, 0)
from (select 1 as one) asked
left join dibs_group_limit l on l.queue = @queue and l.group_key = @group
left join dibs_rate r on r.queue = @queue and r.group_key = @group;
