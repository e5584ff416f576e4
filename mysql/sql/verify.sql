-- Purpose: read what a caller's transaction is like.
-- Parameters: none.
-- Columns out: whether it is open, isolation of the session, whether it is read-only, who the database is; a row that does not
--   exist, and 0, as it was not found.
-- Concurrency: plain reads, and what lock_gap.sql does with that row.
select
  @@in_transaction,
  @@tx_isolation,
  @@tx_read_only,
  (select queue from dibs_turn where what = 'database'),
  concat(lpad(hex(connection_id() % 64), 2, '0'), '+'),
  (select count(*) from dibs_turn where what = 'gap' and queue = concat(lpad(hex(connection_id() % 64), 2, '0'), '+') for update)
