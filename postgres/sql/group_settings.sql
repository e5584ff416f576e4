-- Purpose: list the groups of a queue that have settings of their own, and of those that its
--   rate for groups holds up the 1,000 that may go on first.
-- Parameters: $1 queue.
-- Columns out: group, limit or 0, rate n, per in microseconds, burst, held until or null.
-- Concurrency: a plain read.
select
    coalesce(l.group_key, r.group_key),
    coalesce(l.places, 0),
    coalesce(r.n, 0),
    coalesce(extract(epoch from r.per) * 1000000, 0)::bigint,
    coalesce(r.burst, 0),
    case when r.held_until > statement_timestamp() then r.held_until end
from (select group_key, places from dibs.group_limit where queue = $1) l
full join (
    select group_key, n, per, burst, held_until
    from dibs.rate
    where queue = $1 and group_key <> '' and n > 0
    union all
    (
        select group_key, n, per, burst, held_until
        from dibs.rate
        where queue = $1 and group_key <> '' and n = 0 and held_until > statement_timestamp()
        order by held_until
        limit 1000
    )
) r on r.group_key = l.group_key
order by 1
