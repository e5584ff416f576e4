-- Purpose: let only one claim at a time count the running rows of a table with a limit.
-- Parameters: none; each table has a lock.
-- Columns out: 1 if this transaction has the lock, else 0.
-- Concurrency: no transaction waits for the lock, which lasts as long as the transaction.
select pg_try_advisory_xact_lock(1684628083, {{.Alone}})::int
