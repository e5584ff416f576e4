-- Purpose: list the queues in which rates hold jobs up.
-- Parameters: none.
-- Columns out: queue; when the queue's rate lets the next job start, or null; how many of its
--   groups are held up by rates of their own, as far as 1,000.
-- Concurrency: a plain read of the transaction's snapshot.
with clock (now) as materialized (
  select max(now, cast(round(unixepoch('subsec') * 1000) as integer) * 1000)
  from dibs_clock
)
select h.name, h.held_until, h.held_groups
from (
  select
    q.name,
    case when q.rate_n > 0 and r.not_before > (select now from clock) then r.not_before end as held_until,
    (select count(*) from (
      select 1
      from dibs_rate h
      where q.group_rates and h.queue = q.name and h.held_until > (select now from clock)
      limit 1000
    )) as held_groups
  from dibs_queue q
  left join dibs_rate r on r.queue = q.name and r.group_key = ''
  where q.rate_n > 0 or q.group_rates
) h
where h.held_until is not null or h.held_groups > 0
