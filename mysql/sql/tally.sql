-- Purpose: append a transaction's changes to a queue's counts.
-- Parameters: ?1 queue, ?2 minute since 1970, ?3 waiting, ?4 blocked, ?5 running,
--   ?6 completed, ?7 dead, ?8 cancelled, ?9 enqueued, ?10 claimed, ?11 succeeded,
--   ?12 failed, ?13 died, ?14 wait and ?15 run time in microseconds.
-- Columns out: none.
-- Concurrency: a row of its own for each transaction, so none waits for another.
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
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
