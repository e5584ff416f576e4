-- Purpose: list how dead jobs of some queues have ended.
-- Parameters: $1 names of queues; $2 how many of each; $3, $4 only those that died before this time, or at it if
--   their ids are smaller.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows only; locks nothing. It reads the index of each queue from the
--   newest on, as far as the limit, and no other rows. The rows come in no order: sorting texts by the
--   thousands would spill to disk here.
select
    f.id,
    f.queue,
    f.kind,
    f.finished_at,
    f.attempt,
    case when length(f.error) > 1000 then concat(left(f.error, 600), '…', right(f.error, 400)) else coalesce(f.error, '') end
from unnest($1::text[]) as q (name)
cross join lateral (
    select
        d.id,
        d.queue,
        d.kind,
        d.finished_at,
        d.attempt,
        d.errors -> -1 ->> 'error' as error
    from dibs.finished d
    where d.queue = q.name and d.state = 'dead' and (d.finished_at, d.id) < ($3::timestamptz, $4::bigint)
    order by d.finished_at desc, d.id desc
    limit $2
) f
