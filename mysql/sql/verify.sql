-- Purpose: read what a caller's transaction is like.
-- Parameters: none.
-- Columns out: isolation of the session, whether it is read-only, who the database is.
-- Concurrency: plain reads.
select
  @@tx_isolation,
  @@tx_read_only,
  (select queue from dibs_turn where what = 'database')
