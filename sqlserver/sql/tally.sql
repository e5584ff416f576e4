-- Purpose: append a transaction's changes to a queue's counts.
-- Parameters: ?1 queue, ?2 minute since 1970, ?3 waiting, ?4 blocked, ?5 running,
--   ?6 completed, ?7 dead, ?8 cancelled, ?9 enqueued, ?10 claimed, ?11 succeeded,
--   ?12 failed, ?13 died, ?14 wait and ?15 run time in microseconds.
-- Columns out: none.
-- Concurrency: a row of its own for each transaction, so none waits for another.
declare
  @queue varbinary(255) = ?1,
  @minute bigint = ?2,
  @waiting bigint = ?3,
  @blocked bigint = ?4,
  @running bigint = ?5,
  @completed bigint = ?6,
  @dead bigint = ?7,
  @cancelled bigint = ?8,
  @enqueued bigint = ?9,
  @claimed bigint = ?10,
  @succeeded bigint = ?11,
  @failed bigint = ?12,
  @died bigint = ?13,
  @wait_us bigint = ?14,
  @run_us bigint = ?15;
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
values (
  @queue,
  @minute,
  @waiting,
  @blocked,
  @running,
  @completed,
  @dead,
  @cancelled,
  @enqueued,
  @claimed,
  @succeeded,
  @failed,
  @died,
  @wait_us,
  @run_us
);
