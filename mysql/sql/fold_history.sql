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
  case when n.n = 1 then t.queue else '' end as of_queue,
  sum(t.enqueued),
  sum(t.claimed),
  sum(t.succeeded),
  sum(t.failed),
  sum(t.died),
  least(sum(t.wait_us), 900000000000000000),
  least(sum(t.run_us), 900000000000000000)
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_tally t force index (primary) on t.id = i.id
cross join (select 1 as n union all select 2) n
where t.minute > 0 and t.minute < ?2 and t.minute >= ?3
  and greatest(t.enqueued, t.claimed, t.succeeded, t.failed, t.died) > 0
group by t.minute, of_queue
on duplicate key update
  enqueued = enqueued + values(enqueued),
  claimed = claimed + values(claimed),
  succeeded = succeeded + values(succeeded),
  failed = failed + values(failed),
  died = died + values(died),
  wait_us = least(wait_us + values(wait_us), 900000000000000000),
  run_us = least(run_us + values(run_us), 900000000000000000)
