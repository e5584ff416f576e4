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
  queue,
  iif(minute < ?2, 0, minute) as folded,
  sum(waiting),
  sum(blocked),
  sum(running),
  sum(completed),
  sum(dead),
  sum(cancelled),
  sum(iif(minute < ?2, 0, enqueued)),
  sum(iif(minute < ?2, 0, claimed)),
  sum(iif(minute < ?2, 0, succeeded)),
  sum(iif(minute < ?2, 0, failed)),
  sum(iif(minute < ?2, 0, died)),
  cast(min(total(iif(minute < ?2, 0, wait_us)), 900000000000000000) as integer),
  cast(min(total(iif(minute < ?2, 0, run_us)), 900000000000000000) as integer)
from dibs_tally
where id in (select value from json_each(?1))
group by queue, folded
