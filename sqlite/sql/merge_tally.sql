-- Purpose: add old minutes to minute 0, which keeps the sums and forgets the times.
-- Parameters: ?1 the first minute to keep.
-- Columns out: none.
-- Concurrency: in one write transaction with the deletion of what it adds
--   (drop_tally.sql).
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
  wait_us,
  run_us
)
select
  queue,
  0,
  sum(waiting),
  sum(blocked),
  sum(running),
  sum(completed),
  sum(dead),
  sum(cancelled),
  0,
  0,
  0,
  0,
  0,
  0
from dibs_tally
where minute > 0 and minute < ?1
group by queue
on conflict (queue, minute) do update
set
  waiting = waiting + excluded.waiting,
  blocked = blocked + excluded.blocked,
  running = running + excluded.running,
  completed = completed + excluded.completed,
  dead = dead + excluded.dead,
  cancelled = cancelled + excluded.cancelled
