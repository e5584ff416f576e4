-- Purpose: keep other repairs away until the transaction ends.
-- Parameters: $1 key of the advisory lock.
-- Columns out: nothing of use.
-- Concurrency: waits for another repair, and for nobody else.
select pg_advisory_xact_lock($1)
