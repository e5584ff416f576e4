-- Purpose: end an enqueue by COPY: count its jobs and wake their groups.
-- Parameters: arrays of equal length: $1 queue, $2 waiting and $3 blocked jobs; then,
--   of equal length too, $4 queue and $5 group to wake.
-- Columns out: none.
-- Concurrency: appends only.
with woken as (
    insert into dibs.wake_list (queue, groups)
    select w.queue, array_agg(w.group_key)
    from unnest($4::text[], $5::text[]) with ordinality as w (queue, group_key, ord)
    group by w.queue, w.ord / 500
)
insert into dibs.tally (queue, waiting, blocked, enqueued)
select
    n.queue,
    n.waiting,
    nullif(n.blocked, 0),
    n.waiting + n.blocked
from unnest($1::text[], $2::bigint[], $3::bigint[]) as n (queue, waiting, blocked)
