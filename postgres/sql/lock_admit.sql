-- Purpose: keep a queue's grouped jobs from being admitted until the transaction ends.
-- Parameters: $1 key of the advisory lock, as in turn_admit.sql.
-- Columns out: nothing of use.
-- Concurrency: waits for an admission under way, which is one of our own short
--   transactions. A changed limit is then seen by every later one, and the groups that
--   are woken are all that an earlier one filled.
select pg_advisory_xact_lock($1)
