-- Purpose: change a queue's settings.
-- Parameters: ?1 the version that the change was made from; from ?2 on the settings, in the order
--   of queues.sql, durations in microseconds.
-- Columns out: none.
-- Concurrency: changes nothing if others have changed the settings since they were read, and so their version.
update dibs_queue
set
  version = version + 1,
  paused = ?3,
  concurrency = ?4,
  group_limit = ?5,
  strict = ?6,
  claim_order = ?7,
  lease = ?8,
  max_attempts = ?9,
  backoff_base = ?10,
  backoff_factor = ?11,
  backoff_max = ?12,
  backoff_jitter = ?13,
  keep_completed = ?14,
  keep_dead = ?15,
  keep_cancelled = ?16,
  payload_limit = ?17,
  rate_n = ?18,
  rate_per = ?19,
  rate_burst = ?20,
  job_timeout = ?21,
  group_rate_n = ?22,
  group_rate_per = ?23,
  group_rate_burst = ?24,
  group_rates = group_rates or ?22 > 0
where name = ?2 and version = ?1
