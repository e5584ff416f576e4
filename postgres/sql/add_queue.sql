-- Purpose: make queues that do not exist yet, with the default settings, and mark those
--   that have groups.
-- Parameters: arrays of equal length: $1 name, $2 grouped.
-- Columns out: none.
-- Concurrency: in a transaction of its own, so that an enqueuer's open transaction
--   never holds a queue's row. A queue that exists is not locked unless it gets its
--   first group; its version then rises, so that claims begin to admit. The caller
--   reads the queue afterwards and repeats this if another process made it meanwhile.
with asked as (
    select n.name, n.grouped
    from unnest($1::text[], $2::boolean[]) as n (name, grouped)
), made as (
    insert into dibs.queue (name, grouped)
    select name, grouped
    from asked
    order by name
    on conflict (name) do nothing
), turns as (
    insert into dibs.turn (queue)
    select name
    from asked
    order by name
    on conflict (queue) do nothing
)
update dibs.queue q
set
    grouped = true,
    version = q.version + 1
from asked a
where q.name = any (array[a.name]) and a.grouped and not q.grouped
