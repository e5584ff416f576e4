-- Purpose: keep a queue's grouped jobs from being admitted until the transaction ends.
-- Parameters: $1 key of the advisory lock, as in turn_admit.sql.
-- Columns out: nothing of use.
-- Concurrency: waits for an admission under way, which is one of dibs' own short
--   transactions. Every later admission sees a changed limit, and all groups that an
--   earlier one filled are woken.
select pg_advisory_xact_lock($1)
