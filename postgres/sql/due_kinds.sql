-- Purpose: find the kinds of the jobs that are due in a queue.
-- Parameters: $1 queue, $2 how many jobs to look at.
-- Columns out: kind, sorted.
-- Concurrency: a plain read of the start of the ready index, which has claimed jobs too, and
--   those that are not due yet.
select distinct f.kind
from (
    select j.kind, j.run_at, j.token
    from dibs.job j
    where j.queue = $1 and j.gate = 0
    order by j.priority, j.run_at, j.id
    limit $2
) f
where f.token is null and f.run_at <= statement_timestamp()
order by f.kind
