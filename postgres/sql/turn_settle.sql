-- Purpose: keep others away until the transaction ends: settlements and other requeues, or others that add jobs after older
--   ones.
-- Parameters: $1 key of the advisory lock, as in turn_sweep.sql for settlements.
-- Columns out: nothing of use.
-- Concurrency: waits for a settlement under way, which is one of dibs' own short transactions; of those that add, one may
--   be a caller's.
select pg_advisory_xact_lock($1)
