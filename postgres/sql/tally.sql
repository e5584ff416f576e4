-- Purpose: add to a queue's counts what they lack by repairable.sql.
-- Parameters: $1 queue, $2 waiting, $3 blocked, $4 running, $5 completed, $6 dead,
--   $7 cancelled.
-- Columns out: none.
-- Concurrency: appends only. Its transaction took the lock of lock_repair.sql before it ran
--   repairable.sql, so nothing is added twice.
insert into dibs.tally (queue, waiting, blocked, running, completed, dead, cancelled)
values ($1, $2, $3, $4, $5, $6, $7)
