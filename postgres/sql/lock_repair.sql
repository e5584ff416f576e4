-- Purpose: keep other repairs away until the transaction ends.
-- Parameters: $1 key of the advisory lock.
-- Columns out: nothing of use.
-- Concurrency: waits only for another repair.
select pg_advisory_xact_lock($1)
