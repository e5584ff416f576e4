-- Purpose: change a queue's settings.
-- Parameters: ?1 to ?23 as add_queue.sql; ?24 the version that the change was made from.
-- Columns out: none.
-- Concurrency: changes nothing if others have changed the settings since they were read, and so their version.
update dibs_queue
set
  version = version + 1,
  paused = ?2,
  concurrency = ?3,
  group_limit = ?4,
  strict = ?5,
  claim_order = ?6,
  lease = ?7,
  max_attempts = ?8,
  backoff_base = ?9,
  backoff_factor = ?10,
  backoff_max = ?11,
  backoff_jitter = ?12,
  keep_completed = ?13,
  keep_dead = ?14,
  keep_cancelled = ?15,
  payload_limit = ?16,
  rate_n = ?17,
  rate_per = ?18,
  rate_burst = ?19,
  job_timeout = ?20,
  group_rate_n = ?21,
  group_rate_per = ?22,
  group_rate_burst = ?23,
  group_rates = group_rates or ?21 > 0
where name = ?1 and version = ?24
