-- Purpose: let only one claim at a time count the running rows of a table with a limit.
-- Parameters: none; each table has a lock.
-- Columns out: 1 if this session has the lock, else 0.
-- Concurrency: no session waits for the lock, which is released after the transaction has ended.
select coalesce( get_lock(concat('dibs-', sha1({{.TurnOf "''"}})), 0), 0)
