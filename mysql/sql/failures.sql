-- Purpose: list how the dead jobs of some queues have ended. Lists are JSON arrays.
-- Parameters: ?1 names of queues; ?2 how many of each; ?3, ?4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows only; locks nothing. The rows come in no order.
select
  x.id,
  x.queue,
  x.kind,
  x.finished_at,
  x.attempt,
  case when char_length(x.error) > 1000 then concat(left(x.error, 600), '…', right(x.error, 400)) else coalesce(x.error, '') end
from (
  select
    d.id,
    d.queue,
    d.kind,
    d.finished_at,
    d.attempt,
    if(json_valid(d.errors), json_value(convert(d.errors using utf8mb4), concat('$[', json_length(d.errors) - 1, '].error')), '') as error,
    row_number() over (partition by d.queue order by d.finished_at desc, d.id desc) as nth
  from json_table(?1, '$[*]' columns (name varchar(255) character set utf8mb4 path '$')) q
  straight_join dibs_finished d force index (by_time) on d.queue = q.name and d.state = 'dead'
  where (d.finished_at < ?3 or d.finished_at = ?3 and d.id < ?4)
) x
where x.nth <= ?2
