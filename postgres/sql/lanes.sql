-- Purpose: list the priorities of a queue's ready jobs, due or not, that are not known
--   yet.
-- Parameters: arrays of equal length: $2 lowest and $3 highest priority of the gaps
--   between the known priorities; $1 queue, $4 how many at most from each gap.
-- Columns out: priority, ascending.
-- Concurrency: a plain read; what it misses lies in a gap, which claims read too.
-- Steps through the index from one priority to the next instead of reading it all.
select f.priority
from unnest($2::smallint[], $3::smallint[]) as g (low, high),
    lateral (
        with recursive lane (priority, n) as (
            (select priority, 1
            from dibs.job
            where queue = $1 and gate = 0 and priority >= g.low and priority <= g.high
            order by priority
            limit 1)
            union all
            select (
                select j.priority
                from dibs.job j
                where j.queue = $1 and j.gate = 0 and j.priority > lane.priority and j.priority <= g.high
                order by j.priority
                limit 1
            ), n + 1
            from lane
            where lane.priority is not null and n < $4
        )
        select lane.priority
        from lane
        where lane.priority is not null
    ) f
