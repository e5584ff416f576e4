-- Purpose: list all queues with their settings.
-- Parameters: none.
-- Columns out: name, paused, concurrency, group_limit, strict, claim_order, lease,
--   max_attempts, backoff base, factor, max, jitter, keep completed, dead, cancelled,
--   payload limit, rate n, per, burst, job timeout, n, per, burst of the groups' rate, whether groups may have rates; durations in microseconds.
-- Concurrency: a plain read of the transaction's snapshot.
select
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
  group_rate_burst,
  group_rates
from dibs_queue
order by name
