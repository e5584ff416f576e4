-- Purpose: change a queue's settings.
-- Parameters: $1 the version that the change was made from; $2 step and $3 slack in nanoseconds of the bucket
--   of the groups' rate; from $4 on the new settings, in the order of queues.sql, durations in microseconds.
-- Columns out: version; no row if somebody else has changed the settings since.
-- Concurrency: from the commit on, claims under the old version find nothing. Under a new
--   limit or rate the next claim first counts the running jobs (count_running.sql).
update dibs.queue
set
    version = version + 1,
    paused = $5,
    counted = case when (concurrency > 0 or $6 = 0) and (rate_n > 0 or $20 = 0) then counted end,
    concurrency = $6,
    group_limit = $7,
    strict = $8,
    claim_order = $9,
    lease = $10::bigint * interval '1 microsecond',
    max_attempts = $11,
    backoff_base = $12::bigint * interval '1 microsecond',
    backoff_factor = $13,
    backoff_max = $14::bigint * interval '1 microsecond',
    backoff_jitter = $15,
    keep_completed = $16::bigint * interval '1 microsecond',
    keep_dead = $17::bigint * interval '1 microsecond',
    keep_cancelled = $18::bigint * interval '1 microsecond',
    payload_limit = $19,
    rate_n = $20,
    rate_per = $21::bigint * interval '1 microsecond',
    rate_burst = $22,
    job_timeout = $23::bigint * interval '1 microsecond',
    group_rate_n = $24,
    group_rate_per = $25::bigint * interval '1 microsecond',
    group_rate_burst = $26,
    group_step_ns = $2,
    group_slack_ns = $3,
    group_rates = group_rates or $24 > 0
where name = $4 and version = $1
returning version
