-- Purpose: have admissions and claims look for the rates of a queue's groups from now on.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: admissions that do not know that groups have rates do nothing from the commit on, and
--   claims that do not know it find nothing. It has a transaction of dibs' own, since it locks the queue's row.
update dibs.queue
set version = version + 1, group_rates = true
where name = $1 and not group_rates
