-- Purpose: find rows of counts to add up: those of minutes that statistics no longer show, and those of minutes that have several.
-- Parameters: ?1 the first minute to keep, ?2 how many rows.
-- Columns out: id.
-- Concurrency: in the turn to sweep, so nobody else adds these up. It locks them and passes over locked ones, as a
--   deletion of the queue deletes them too. Rows of one minute come together, so that some are always added up.
select t.id
from (
  select x.id
  from dibs_tally x
  left join (
    select y.queue, y.minute
    from dibs_tally y
    group by y.queue, y.minute
    having count(*) > 1
  ) d on d.queue = x.queue and d.minute = x.minute
  where x.minute > 0 and x.minute < ?1 or d.queue is not null
  order by x.queue, x.minute, x.id
  limit ?2
) l
straight_join dibs_tally t force index (primary) on t.id = l.id
for update skip locked
