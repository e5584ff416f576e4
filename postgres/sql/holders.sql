-- Purpose: find which jobs hold unique keys.
-- Parameters: $1 queues, $2 keys, $3 whether a period counts that a job which holds the key
--   no more was enqueued with; arrays of equal length.
-- Columns out: ord (place in the arrays, from 1), id.
-- Concurrency: a plain read after enqueue_unique.sql, in a new snapshot, so that it sees
--   a holder that committed in between. If a holder has given its key up since, no row is
--   found, and the caller enqueues again.
select n.ord, j.id
from unnest($1::text[], $2::text[], $3::bool[]) with ordinality as n (queue, unique_key, periods, ord)
cross join lateral (
    select coalesce((
        select h.id
        from dibs.job h
        where h.queue = n.queue and h.unique_key = n.unique_key and h.unique_held
    ), (
        select w.job
        from dibs.unique_window w
        where n.periods and w.queue = n.queue and w.unique_key = n.unique_key and w.until > statement_timestamp()
    )) as id
    offset 0
) j
where j.id is not null
order by n.ord
