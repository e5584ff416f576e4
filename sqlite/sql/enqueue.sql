-- Purpose: insert one job.
-- Parameters: the columns, in this order; the payload, which comes last, has no number.
--   unique_held is whether there is a unique key.
-- Columns out: none; the id is the last inserted row's.
-- Concurrency: the only write transaction of the file, so a unique key found free
--   (holder.sql) is still free here; the unique index would refuse it otherwise.
-- Two more statements are made of this one (statements.go). enqueue_alike repeats the row,
--   so that its rows share all values but the payload, which are bound once: binding a
--   value costs about 0.1 us. enqueue_many has no numbers, so that each row has values of
--   its own: SQLite would search a list of names to bind each numbered one.
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
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?)
