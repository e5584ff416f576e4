-- Purpose: let one claim at a time count how many of each group are running.
-- Parameters: none; the lock is the table's.
-- Columns out: whether this transaction has the turn.
-- Concurrency: nobody waits for it; it ends with the transaction.
select pg_try_advisory_xact_lock(1684628083, {{.Turn}})::int
