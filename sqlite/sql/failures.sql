-- Purpose: list how the dead jobs of one queue have ended, last died first.
-- Parameters: ?1 queue; ?2 how many; ?3, ?4 only those that died before this time, or at it if their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: a plain read along the index by time; locks nothing.
select
  id,
  queue,
  kind,
  finished_at,
  attempt,
  case when length(error) > 1000 then substr(error, 1, 600) || '…' || substr(error, -400) else coalesce(error, '') end
from (
  select
    id,
    queue,
    kind,
    finished_at,
    attempt,
    cast(iif(json_valid(errors), json_extract(errors, '$[#-1].error'), '') as text) as error
  from dibs_finished
  where queue = ?1 and state = 'dead' and (finished_at, id) < (?3, ?4)
  order by finished_at desc, id desc
  limit ?2
)
order by finished_at desc, id desc
