-- Purpose: add what happened in old minutes to the history.
-- Parameters: ?1 a JSON array of ids of rows of counts, ?2 the first minute to keep in the tally, ?3 the first to keep in the history.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of these rows (drop_folded.sql), so each is added once.
insert into dibs_history (
  minute,
  queue,
  enqueued,
  claimed,
  succeeded,
  failed,
  died,
  wait_us,
  run_us
)
select
  t.minute,
  iif(n.value = 1, t.queue, ''),
  sum(t.enqueued),
  sum(t.claimed),
  sum(t.succeeded),
  sum(t.failed),
  sum(t.died),
  cast(min(total(t.wait_us), 900000000000000000) as integer),
  cast(min(total(t.run_us), 900000000000000000) as integer)
from dibs_tally t
cross join json_each('[1, 2]') n
where t.id in (select value from json_each(?1))
  and t.minute > 0 and t.minute < ?2 and t.minute >= ?3
  and max(t.enqueued, t.claimed, t.succeeded, t.failed, t.died) > 0
group by 1, 2
on conflict (minute, queue) do update
set
  enqueued = enqueued + excluded.enqueued,
  claimed = claimed + excluded.claimed,
  succeeded = succeeded + excluded.succeeded,
  failed = failed + excluded.failed,
  died = died + excluded.died,
  wait_us = min(wait_us + excluded.wait_us, 900000000000000000),
  run_us = min(run_us + excluded.run_us, 900000000000000000)
