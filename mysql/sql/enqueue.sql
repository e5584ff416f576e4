-- Purpose: insert one job.
-- Parameters: the columns, in this order; the payload, which comes last, has no number.
--   unique_held is whether there is a unique key.
-- Columns out: none; the id is the last inserted row's.
-- Concurrency: the key of a job that has one is locked (lock_keys.sql): found free, it is still free here.
-- Two more statements are made of this one (statements.go).
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
