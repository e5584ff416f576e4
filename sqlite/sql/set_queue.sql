-- Purpose: make a queue or replace its settings.
-- Parameters: ?1 name, ?2 paused, ?3 concurrency, ?4 group_limit, ?5 strict,
--   ?6 claim_order, ?7 lease, ?8 max_attempts, ?9 backoff base, ?10 factor, ?11 max,
--   ?12 jitter, ?13 keep completed, ?14 dead, ?15 cancelled, ?16 payload limit, ?17 rate n, ?18 per, ?19 burst, ?20 now, ?21 job timeout,
--   ?22 n, ?23 per and ?24 burst of the groups' rate;
--   durations in microseconds.
-- Columns out: none.
-- Concurrency: the settings were read in the same write transaction, so no other change
--   is lost.
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
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?22 > 0)
on conflict (name) do update
set
  version = version + 1,
  paused = excluded.paused,
  concurrency = excluded.concurrency,
  group_limit = excluded.group_limit,
  strict = excluded.strict,
  claim_order = excluded.claim_order,
  lease = excluded.lease,
  max_attempts = excluded.max_attempts,
  backoff_base = excluded.backoff_base,
  backoff_factor = excluded.backoff_factor,
  backoff_max = excluded.backoff_max,
  backoff_jitter = excluded.backoff_jitter,
  keep_completed = excluded.keep_completed,
  keep_dead = excluded.keep_dead,
  keep_cancelled = excluded.keep_cancelled,
  payload_limit = excluded.payload_limit,
  rate_n = excluded.rate_n,
  rate_per = excluded.rate_per,
  rate_burst = excluded.rate_burst,
  job_timeout = excluded.job_timeout,
  group_rate_n = excluded.group_rate_n,
  group_rate_per = excluded.group_rate_per,
  group_rate_burst = excluded.group_rate_burst,
  group_rates = group_rates or excluded.group_rates
