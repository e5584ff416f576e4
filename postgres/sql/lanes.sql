-- Purpose: list the priorities in use in a queue's ready jobs, due or not.
-- Parameters: $1 queue, $2 how many at most.
-- Columns out: priority, ascending.
-- Concurrency: a plain read; what it misses lies in a gap, which claims read too.
-- Steps through the index from one priority to the next instead of reading it all.
with recursive lane (priority, n) as (
    (select priority, 1
    from dibs.job
    where queue = $1 and gate = 0
    order by priority
    limit 1)
    union all
    select (
        select j.priority
        from dibs.job j
        where j.queue = $1 and j.gate = 0 and j.priority > lane.priority
        order by j.priority
        limit 1
    ), n + 1
    from lane
    where lane.priority is not null and n < $2
)
select priority
from lane
where priority is not null
