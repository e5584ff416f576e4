-- Purpose: keep settlements and other requeues away until the transaction ends.
-- Parameters: $1 key of the advisory lock, as in turn_sweep.sql for settlements.
-- Columns out: nothing of use.
-- Concurrency: waits for a settlement under way, which is one of dibs' own short transactions.
select pg_advisory_xact_lock($1)
