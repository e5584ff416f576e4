-- Purpose: make a queue, unless it exists.
-- Parameters: ?1 now; from ?2 on the settings, in the order of queues.sql,
--   durations in microseconds.
-- Columns out: none.
-- Concurrency: the settings of a queue that others have made meanwhile stay as they are. It waits for a
--   transaction that is making the same queue.
insert into dibs_queue (
  created_at,
  group_rates,
  name,
  paused,
  concurrency,
  group_limit,
  strict,
  claim_order,
  lease,
  max_attempts,
  backoff_base,
  backoff_factor,
  backoff_max,
  backoff_jitter,
  keep_completed,
  keep_dead,
  keep_cancelled,
  payload_limit,
  rate_n,
  rate_per,
  rate_burst,
  job_timeout,
  group_rate_n,
  group_rate_per,
  group_rate_burst
)
values (?1, ?22 > 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)
on duplicate key update name = values(name)
