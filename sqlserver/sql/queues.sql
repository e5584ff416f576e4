-- Purpose: read the settings of all queues, or of some. Lists are JSON arrays.
-- Parameters: ?1 names of queues, or null for all.
-- Columns out: name, paused, concurrency, group_limit, strict, claim_order, lease,
--   max_attempts, backoff base, factor, max, jitter, keep completed, dead, cancelled,
--   payload limit, rate n, per, burst, job timeout, n, per, burst of the groups' rate, whether groups may have rates; durations in microseconds.
-- Concurrency: a plain read.
declare
  @names nvarchar(max) = ?1;
select
  q.name,
  q.paused,
  q.concurrency,
  q.group_limit,
  q.strict,
  q.claim_order,
  q.lease,
  q.max_attempts,
  q.backoff_base,
  q.backoff_factor,
  q.backoff_max,
  q.backoff_jitter,
  q.keep_completed,
  q.keep_dead,
  q.keep_cancelled,
  q.payload_limit,
  q.rate_n,
  q.rate_per,
  q.rate_burst,
  q.job_timeout,
  q.group_rate_n,
  q.group_rate_per,
  q.group_rate_burst,
  q.group_rates
from dibs_queue q
where @names is null or q.name in (select convert(varbinary(255), convert(varchar(255), v.value collate Latin1_General_100_BIN2_UTF8)) from openjson(@names) v)
order by q.name;
