-- Purpose: extend leases, and write the progress of their attempts.
-- Parameters: arrays of equal length: $1 id, $2 token; $3 lease in microseconds; $4 progress in
--   JSON, null where there is none to write, or null instead of the array.
-- Columns out: id and cancel_requested of each job whose lease was extended; whether its attempt
--   has run longer than its queue allows. Subtracting from now overflows for no time in a row.
-- Concurrency: fenced by token and lease, in the newest version of a row. Rows are
--   locked in id order, so that batches cannot wait for each other in a circle.
--   Locked rows are skipped, since the other leases must not wait for them; held.sql finds
--   out which of them an open transaction is finishing. The sweep finds longer leases by
--   itself; for a shorter one the claim's row is written, under the lock that the sweep takes.
with good as materialized (
    select j.id, j.token, j.lease_until, l.progress
    from unnest($1::bigint[], $2::uuid[], $4::text[]) as l (id, token, progress)
    join dibs.job j on j.id = any (array[l.id]) and j.token = l.token and j.lease_until > statement_timestamp()
    order by l.id
    for no key update of j skip locked
), sooner as (
    update dibs.claim
    set check_at = least(check_at, statement_timestamp() + ($3::bigint * interval '1 microsecond'))
    where token = any (array(
        select g.token
        from good g
        where g.lease_until > (statement_timestamp() + ($3::bigint * interval '1 microsecond'))
    ))
)
update dibs.job j
set
    lease_until = statement_timestamp() + ($3::bigint * interval '1 microsecond'),
    progress = coalesce(g.progress::jsonb || jsonb_build_object('attempt', j.attempt, 'at', statement_timestamp()), j.progress)
from good g
where j.id = any (array[g.id])
returning
    j.id,
    j.cancel_requested,
    coalesce(j.claimed_at < (
        select statement_timestamp() - q.job_timeout
        from dibs.queue q
        where q.name = j.queue and q.job_timeout > '0'
    ), false)
