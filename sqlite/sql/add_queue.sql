-- Purpose: make a queue, unless it exists.
-- Parameters: ?1 name, ?2 paused, ?3 concurrency, ?4 group_limit, ?5 strict,
--   ?6 claim_order, ?7 lease, ?8 max_attempts, ?9 backoff base, ?10 factor, ?11 max,
--   ?12 jitter, ?13 keep completed, ?14 dead, ?15 cancelled, ?16 payload limit, ?17 rate n, ?18 per, ?19 burst,
--   ?20 job timeout, ?21 n, ?22 per and ?23 burst of the groups' rate, ?24 now;
--   durations in microseconds.
-- Columns out: none.
-- Concurrency: the settings of a queue that others have made meanwhile stay as they are.
insert into dibs_queue (
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
  created_at,
  job_timeout,
  group_rate_n,
  group_rate_per,
  group_rate_burst,
  group_rates
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?24, ?20, ?21, ?22, ?23, ?21 > 0)
on conflict (name) do nothing
