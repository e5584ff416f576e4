-- Purpose: take the turn to sweep, until the transaction ends; the setting dibs_turn.sweep
--   is true if it was got.
-- Parameters: $1 key of the advisory lock.
-- Columns out: 'true' or 'false'.
-- Concurrency: one process at a time sweeps; others go on without waiting.
select set_config('dibs_turn.sweep', pg_try_advisory_xact_lock($1)::text, true)
