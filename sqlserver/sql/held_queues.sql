-- Purpose: list the queues in which rates hold jobs up.
-- Parameters: none.
-- Columns out: queue; when the queue's rate lets the next job start, or null; how many of its
--   groups are held up by rates of their own, as far as 1,000.
-- Concurrency: a plain read of one snapshot.
declare @now bigint = datediff_big(microsecond, '19700101', sysutcdatetime());
select h.name, h.held_until, h.held_groups
from (
  select
    q.name,
    case when q.rate_n > 0 and r.not_before > @now then r.not_before end as held_until,
    case when q.group_rates = 1 then (
      select count(*)
      from (
        select top (1000) 1 as one
        from dibs_rate g with (index (held), forceseek)
        where g.queue = q.name and g.held_until > @now
      ) x
    ) else 0 end as held_groups
  from dibs_queue q
  left join dibs_rate r on r.queue = q.name and r.group_key = 0x
  where q.rate_n > 0 or q.group_rates = 1
) h
where h.held_until is not null or h.held_groups > 0;
