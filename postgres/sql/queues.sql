-- Purpose: read the settings of all queues, or of one.
-- Parameters: $1 queue, or null for all.
-- Columns out: name, version, the settings (durations in microseconds), grouped, counted.
-- Concurrency: a plain read.
select
    name,
    version,
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
    grouped,
    counted
from dibs.queue
where $1::text is null or name = $1
order by name
