-- Purpose: make queues that do not exist yet, with the default settings, and note
--   which have groups.
-- Parameters: arrays of equal length: $1 name, $2 grouped.
-- Columns out: none.
-- Concurrency: in a transaction of its own, so that an enqueuer's open transaction
--   never holds a queue's row. The version rises when a queue gets its first group,
--   so that claims begin to admit.
insert into dibs.queue (name, grouped)
select n.name, n.grouped
from unnest($1::text[], $2::boolean[]) as n (name, grouped)
order by n.name
on conflict (name) do update
set
    grouped = true,
    version = dibs.queue.version + 1
where excluded.grouped and not dibs.queue.grouped
