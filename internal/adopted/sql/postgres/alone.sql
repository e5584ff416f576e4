-- Purpose: let one claim of a table with a limit at a time count what runs.
-- Parameters: none; the lock is the table's.
-- Columns out: 1 if this transaction has the lock, else 0.
-- Concurrency: nobody waits for it; it ends with the transaction.
select pg_try_advisory_xact_lock(1684628083, {{.Alone}})::int
