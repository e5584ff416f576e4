-- Purpose: read how long the last completed jobs of a queue waited and ran.
-- Parameters: $1 queue; $2 how many jobs.
-- Columns out: when the job ended; how long it waited and ran in the last attempt, in
--   microseconds.
-- Concurrency: one snapshot of finished rows, by the index; locks nothing. A claimed_at that SQL by
--   hand has left may be infinite, for which there is no difference.
select
    f.finished_at,
    (extract(epoch from f.claimed_at - f.run_at) * 1000000)::bigint,
    (extract(epoch from f.finished_at - f.claimed_at) * 1000000)::bigint
from (
    select
        o.finished_at,
        o.claimed_at,
        o.run_at
    from dibs.finished o
    where o.queue = $1 and o.state = 'completed'
    order by o.finished_at desc, o.id desc
    limit $2
) f
where f.claimed_at >= '0001-01-01 00:00:00Z' and f.claimed_at < '10000-01-01 00:00:00Z'
