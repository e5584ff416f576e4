-- Purpose: find which jobs hold unique keys.
-- Parameters: $1 queues, $2 keys, arrays of equal length.
-- Columns out: ord (place in the arrays, from 1), id.
-- Concurrency: a plain read after enqueue_unique.sql, in a new snapshot, so that it sees
--   a holder that committed in between. If a holder has given its key up since, no row is
--   found, and the caller enqueues again.
select n.ord, j.id
from unnest($1::text[], $2::text[]) with ordinality as n (queue, unique_key, ord)
cross join lateral (
    select h.id
    from dibs.job h
    where h.queue = n.queue and h.unique_key = n.unique_key and h.unique_held
    offset 0
) j
order by n.ord
