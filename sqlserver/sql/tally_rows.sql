-- Purpose: find rows of counts to add up: those of minutes that statistics no longer show, and those of minutes that have several.
-- Parameters: ?1 the first minute to keep, ?2 how many rows.
-- Columns out: id.
-- Concurrency: in the turn to sweep, so nobody else adds these up. It locks them and passes over locked ones, as a
--   deletion of the queue deletes them too. Rows of one minute come together, so that some are always added up.
declare
  @first bigint = ?1,
  @n int = ?2;
select t.id
from (
  select top (@n) x.id
  from dibs_tally x
  left join (
    select y.queue, y.minute
    from dibs_tally y
    group by y.queue, y.minute
    having count(*) > 1
  ) d on d.queue = x.queue and d.minute = x.minute
  where x.minute > 0 and x.minute < @first or d.queue is not null
  order by x.queue, x.minute, x.id
) l
join dibs_tally t with (rowlock, updlock, readpast, readcommittedlock, forceseek) on t.id = l.id
option (maxdop 1);
