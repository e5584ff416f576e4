-- Purpose: read a group's own limit and rate, before a change of them.
-- Parameters: $1 queue, $2 group.
-- Columns out: limit or 0, rate n or 0, per in microseconds, burst; always one row.
-- Concurrency: a plain read. A change that must not be lost reads in the turn of lock_admit.sql.
select
    coalesce(l.places, 0),
    coalesce(r.n, 0),
    coalesce(extract(epoch from r.per) * 1000000, 0)::bigint,
    coalesce(r.burst, 0)
from (values ($1::text, $2::text)) as asked (queue, group_key)
left join dibs.group_limit l on l.queue = asked.queue and l.group_key = asked.group_key
left join dibs.rate r on r.queue = asked.queue and r.group_key = asked.group_key
