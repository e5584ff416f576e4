-- Purpose: read one queue's settings.
-- Parameters: ?1 name.
-- Columns out: as queues.sql, and the version of the settings.
-- Concurrency: a plain read.
declare
  @name varbinary(255) = ?1;
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
  group_rates,
  version
from dibs_queue
where name = @name;
