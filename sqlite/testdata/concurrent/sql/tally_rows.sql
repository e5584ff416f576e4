-- Purpose: find rows of counts to add up: those of minutes that statistics no longer show, and those of minutes that have several.
-- Parameters: ?1 the first minute to keep, ?2 how many rows.
-- Columns out: id.
-- Concurrency: in the turn to sweep, so nobody else adds these up. A server locks them and passes over locked ones, as a
--   deletion of the queue deletes them too. Rows of one minute come together, so that some are always added up.
select id
from dibs_tally
where minute > 0 and minute < ?1
  or (queue, minute) in (
    select queue, minute
    from dibs_tally
    group by queue, minute
    having count(*) > 1
  )
order by queue, minute, id
limit ?2
