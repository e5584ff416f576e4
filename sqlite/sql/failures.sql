-- Purpose: list how the dead jobs of some queues have ended. Lists are JSON arrays.
-- Parameters: ?1 names of queues; ?2 how many of each; ?3, ?4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows only; locks nothing. It reads the index of each queue from the
--   newest on, as far as the limit, and no other rows. The rows come in no order.
select
  f.id,
  f.queue,
  f.kind,
  f.finished_at,
  f.attempt,
  (
    select case when length(e.error) > 1000 then substr(e.error, 1, 600) || '…' || substr(e.error, -400) else coalesce(e.error, '') end
    from (select cast(iif(json_valid(f.errors), json_extract(f.errors, '$[#-1].error'), '') as text) as error) e
  )
from json_each(?1) q
cross join dibs_finished f on f.id in (
  select d.id
  from dibs_finished d
  where d.queue = q.value and d.state = 'dead' and (d.finished_at, d.id) < (?3, ?4)
  order by d.finished_at desc, d.id desc
  limit ?2
)
