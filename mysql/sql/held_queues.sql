-- Purpose: list the queues in which rates hold jobs up.
-- Parameters: none.
-- Columns out: queue; when the queue's rate lets the next job start, or null; how many of its
--   groups are held up by rates of their own, as far as 1,000.
-- Concurrency: a plain read of one snapshot.
select h.name, h.held_until, h.held_groups
from (
  select
    q.name,
    case when q.rate_n > 0 and r.not_before > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) then r.not_before end as held_until,
    case when q.group_rates then (
      select count(*)
      from dibs_rate g force index (held)
      where g.queue = q.name and g.held_until > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
    ) else 0 end as held_groups
  from dibs_queue q
  left join dibs_rate r on r.queue = q.name and r.group_key = ''
  where q.rate_n > 0 or q.group_rates
) h
where h.held_until is not null or h.held_groups > 0
