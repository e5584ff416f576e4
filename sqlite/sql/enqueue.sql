-- Purpose: insert one job.
-- Parameters: ?1 queue, ?2 kind, ?3 priority, ?4 run_at, ?5 gate, ?6 max_attempts,
--   ?7 group or null, ?8 unique key or null, ?9 unique until or null, ?10 now,
--   ?11 metadata or null, ?12 payload.
-- Columns out: none; the id is the last inserted row's.
-- Concurrency: the only write transaction of the file, so a unique key found free
--   (holder.sql) is still free here; the unique index would refuse it otherwise.
-- One prepared statement per job: 160k jobs/s; rows of 10 to 500 in one statement
--   came to 180k to 250k, for statements of thousands of parameters.
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
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8 is not null, ?10, ?11, ?12)
