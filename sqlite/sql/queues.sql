-- Purpose: read the settings of all queues, or of some. Lists are JSON arrays.
-- Parameters: ?1 names of queues, or null for all.
-- Columns out: name, paused, concurrency, group_limit, strict, claim_order, lease,
--   max_attempts, backoff base, factor, max, jitter, keep completed, dead, cancelled,
--   payload limit, rate n, per, burst, job timeout, n, per, burst of the groups' rate, whether groups may have rates; durations in microseconds.
-- Concurrency: a plain read of the transaction's snapshot. An "or" in the condition would read all queues where one is asked for.
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
where name in (select value from json_each(iif(?1 is null, (select json_group_array(name) from dibs_queue), ?1)))
order by name
