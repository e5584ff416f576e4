-- Purpose: insert one job.
-- Parameters: the columns, in this order; unique_held is whether there is a unique key.
-- Columns out: none; the id is the last inserted row's.
-- Concurrency: the only write transaction of the file, so a unique key found free
--   (holder.sql) is still free here; the unique index would refuse it otherwise.
-- Of many jobs, each enqueuedAtOnce (statements.go) go in a statement with as many rows.
--   Numbered parameters would have names, which SQLite walks through to bind each one.
insert into dibs_job (
  queue,
  kind,
  priority,
  run_at,
  gate,
  max_attempts,
  group_key,
  unique_key,
  unique_until,
  unique_held,
  created_at,
  metadata,
  payload
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
