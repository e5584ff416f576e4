-- Purpose: insert one job.
-- Parameters: the columns, in this order; unique_held is whether there is a unique key.
-- Columns out: none; the id is the last inserted row's.
-- Concurrency: the only write transaction of the file, so a unique key found free
--   (holder.sql) is still free here; the unique index would refuse it otherwise.
-- enqueue_many is the same for enqueuedAtOnce rows (statements.go). The parameters have
--   no numbers: SQLite would search a list of names to bind each numbered one.
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
