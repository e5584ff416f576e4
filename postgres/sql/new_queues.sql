-- Purpose: find the queues into which the database's own functions have enqueued, and which
--   have no settings yet, or do not say that they have groups.
-- Parameters: $1 a queue to look for in any case, or null.
-- Columns out: queue; whether it has jobs with groups.
-- Concurrency: a plain read. The functions write wake_list, with an empty list where there is no
--   group, and not the queue: their transaction would make others wait (add_queue.sql).
select x.queue, bool_or(x.grouped)
from (
    select w.queue, cardinality(w.groups) > 0 as grouped
    from dibs.wake_list w
    where not exists (select from dibs.queue q where q.name = w.queue and q.grouped)
    union all
    select $1, j.gate in (1, 2)
    from dibs.job j
    where j.queue = $1 and j.gate in (0, 1, 2)
        and not exists (select from dibs.queue q where q.name = $1)
) x
group by x.queue
