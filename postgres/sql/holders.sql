-- Purpose: find which jobs hold unique keys.
-- Parameters: arrays of equal length: $1 queue; $2 key that a live job may hold, or null;
--   $3 key that a period holds, as take_windows.sql has found, or null.
-- Columns out: ord (place in the arrays, from 1), id.
-- Concurrency: a plain read after enqueue_unique.sql, in a new snapshot, so that it sees
--   a holder that committed in between. In a transaction with one snapshot that may show two: the
--   one that has given the key up since, and the newer one that this transaction has inserted.
select n.ord, j.id
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as n (queue, unique_key, period_key, ord)
cross join lateral (
    select coalesce((
        select h.id
        from dibs.job h
        where h.queue = n.queue and h.unique_key = n.unique_key and h.unique_held
        order by h.id desc
        limit 1
    ), (
        select w.job
        from dibs.unique_window w
        where w.queue = n.queue and w.unique_key = n.period_key
    )) as id
    offset 0
) j
where j.id is not null
order by n.ord
