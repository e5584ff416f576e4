-- Purpose: append the sums of rows of counts, one for each queue and minute; old minutes become minute 0, which has no
--   times.
-- Parameters: ?1 a JSON array of ids, ?2 the first minute to keep.
-- Columns out: none.
-- Concurrency: in one transaction with the deletion of these rows (drop_folded.sql). Rows that others append meanwhile are
--   not among them.
insert into dibs_tally (
  queue,
  minute,
  waiting,
  blocked,
  running,
  completed,
  dead,
  cancelled,
  enqueued,
  claimed,
  succeeded,
  failed,
  died,
  wait_us,
  run_us
)
select
  t.queue,
  case when t.minute < ?2 then 0 else t.minute end as folded,
  sum(t.waiting),
  sum(t.blocked),
  sum(t.running),
  sum(t.completed),
  sum(t.dead),
  sum(t.cancelled),
  sum(case when t.minute < ?2 then 0 else t.enqueued end),
  sum(case when t.minute < ?2 then 0 else t.claimed end),
  sum(case when t.minute < ?2 then 0 else t.succeeded end),
  sum(case when t.minute < ?2 then 0 else t.failed end),
  sum(case when t.minute < ?2 then 0 else t.died end),
  least(sum(case when t.minute < ?2 then 0 else t.wait_us end), 900000000000000000),
  least(sum(case when t.minute < ?2 then 0 else t.run_us end), 900000000000000000)
from json_table(?1, '$[*]' columns (id bigint path '$')) i
straight_join dibs_tally t force index (primary) on t.id = i.id
group by t.queue, folded
