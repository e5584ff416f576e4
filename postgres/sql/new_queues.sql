-- Purpose: find the queues into which the functions of the schema have enqueued, and which have
--   no settings yet, or have got their first group and are not marked as grouped.
-- Parameters: $1 a queue to look for by its jobs too, if it has no settings; empty for none.
-- Columns out: queue; whether it has jobs with groups.
-- Concurrency: a plain read, of the first row of each queue. The functions write wake_list, with
--   an empty list where there is no group, and not the queue, as their transactions would make
--   others wait (add_queue.sql).
with recursive listed (queue) as (
    select min(queue)
    from dibs.wake_list
    union all
    select (
        select min(w.queue)
        from dibs.wake_list w
        where w.queue > l.queue
    )
    from listed l
    where l.queue is not null
)
select
    l.queue,
    exists (select from dibs.wake_list w where w.queue = l.queue and w.groups <> '{}' offset 0)
from listed l
where l.queue <> '' and octet_length(l.queue) < 256
    and not exists (select from dibs.queue q where q.name = l.queue and q.grouped)
union all
select
    $1,
    exists (select from dibs.job j where j.queue = $1 and j.gate = 1) or exists (select from dibs.job j where j.queue = $1 and j.gate = 2)
where not exists (select from dibs.queue q where q.name = $1)
    and not exists (select from dibs.wake_list w where w.queue = $1)
    and (
        exists (select from dibs.job j where j.queue = $1 and j.gate = 0)
        or exists (select from dibs.job j where j.queue = $1 and j.gate = 1)
        or exists (select from dibs.job j where j.queue = $1 and j.gate = 2)
        or exists (select from dibs.job j where j.queue = $1 and j.gate = 5)
    )
