-- Purpose: read the settings of all queues, or of some.
-- Parameters: $1 names of queues, or null for all.
-- Columns out: name, paused, concurrency, group_limit, strict, claim_order, lease,
--   max_attempts, backoff base, factor, max, jitter, keep completed, dead, cancelled,
--   payload limit, rate n, per, burst, job timeout, n, per, burst of the groups' rate, whether groups may have rates; durations in microseconds.
--   Then version, grouped, counted.
-- Concurrency: a plain read. An "or" in the condition would read all queues where one is asked for.
select
    name,
    paused,
    concurrency,
    group_limit,
    strict,
    claim_order,
    (extract(epoch from lease) * 1000000)::bigint,
    max_attempts,
    (extract(epoch from backoff_base) * 1000000)::bigint,
    backoff_factor,
    (extract(epoch from backoff_max) * 1000000)::bigint,
    backoff_jitter,
    (extract(epoch from keep_completed) * 1000000)::bigint,
    (extract(epoch from keep_dead) * 1000000)::bigint,
    (extract(epoch from keep_cancelled) * 1000000)::bigint,
    payload_limit,
    rate_n,
    (extract(epoch from rate_per) * 1000000)::bigint,
    rate_burst,
    (extract(epoch from job_timeout) * 1000000)::bigint,
    group_rate_n,
    (extract(epoch from group_rate_per) * 1000000)::bigint,
    group_rate_burst,
    group_rates,
    version,
    grouped,
    coalesce(counted, false)
from dibs.queue
where name = any (coalesce($1::text[], array(select name from dibs.queue)))
order by name
