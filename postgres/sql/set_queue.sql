-- Purpose: change a queue's settings.
-- Parameters: $1 name; then the new settings: $2 paused, $3 concurrency,
--   $4 group_limit, $5 strict, $6 order, $7 lease, $8 max_attempts, $9 backoff base,
--   $10 factor, $11 max, $12 jitter, $13 keep completed, $14 dead, $15 cancelled,
--   $16 payload limit, $17 rate n, $18 per, $19 burst, $20 job timeout; durations in
--   microseconds. $21 the version they were made from; $22 n, $23 per and $24 burst of the groups'
--   rate, $25 step and $26 slack of its bucket in nanoseconds.
-- Columns out: version; no row if somebody else has changed the settings since.
-- Concurrency: from the commit on, claims under the old version find nothing. Under a new
--   limit or rate the next claim first counts the running jobs (count_running.sql).
update dibs.queue
set
    version = version + 1,
    paused = $2,
    counted = case when (concurrency > 0 or $3 = 0) and (rate_n > 0 or $17 = 0) then counted end,
    concurrency = $3,
    group_limit = $4,
    strict = $5,
    claim_order = $6,
    lease = $7::bigint * interval '1 microsecond',
    max_attempts = $8,
    backoff_base = $9::bigint * interval '1 microsecond',
    backoff_factor = $10,
    backoff_max = $11::bigint * interval '1 microsecond',
    backoff_jitter = $12,
    keep_completed = $13::bigint * interval '1 microsecond',
    keep_dead = $14::bigint * interval '1 microsecond',
    keep_cancelled = $15::bigint * interval '1 microsecond',
    payload_limit = $16,
    rate_n = $17,
    rate_per = $18::bigint * interval '1 microsecond',
    rate_burst = $19,
    job_timeout = $20::bigint * interval '1 microsecond',
    group_rate_n = $22,
    group_rate_per = $23::bigint * interval '1 microsecond',
    group_rate_burst = $24,
    group_step_ns = $25,
    group_slack_ns = $26,
    group_rates = group_rates or $22 > 0
where name = $1 and version = $21
returning version
