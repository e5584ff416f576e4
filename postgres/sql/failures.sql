-- Purpose: list how dead jobs have ended, last died first.
-- Parameters: $1 queue, '' for all; $2 how many.
-- Columns out: id, queue, kind, when it died, attempt, the last error without its middle.
-- Concurrency: one snapshot of finished rows only; locks nothing. At most $2 / k queues have k jobs
--   or more in the list: those whose k-th job from the newest is newer than that of others. So
--   reached holds the newest job of $2 queues, the second of these $2, the fourth of the $2 / 2 whose second
--   is newest, the eighth of $2 / 4, and so on; a queue has fewer than 2 * k jobs in the list, k
--   being the last that it has reached. However the deaths are spread, this reads an entry of
--   the index for each queue and about 3 * $2 * log2($2) more, then the rows of those listed.
with recursive reached (k, queue, finished_at, id) as (
    (
        select 1::bigint, q.name, x.finished_at, x.id
        from dibs.queue q,
            lateral (
                select o.finished_at, o.id
                from dibs.finished o
                where o.queue = q.name and o.state = 'dead'
                order by o.finished_at desc, o.id desc
                limit 1
            ) x
        where ($1 = '' or $1 = q.name)
        order by x.finished_at desc, x.id desc
        limit $2
    )
    union all
    select r.k * 2, r.queue, x.finished_at, x.id
    from (
        select s.k, s.queue, s.finished_at, s.id, row_number() over (order by s.finished_at desc, s.id desc) as place
        from reached s
    ) r,
        lateral (
            select o.finished_at, o.id
            from dibs.finished o
            where o.queue = r.queue and o.state = 'dead' and (o.finished_at, o.id) < (r.finished_at, r.id)
            order by o.finished_at desc, o.id desc
            offset r.k - 1
            limit 1
        ) x
    where (r.place * r.k) <= $2
), newest as materialized (
    select x.finished_at, x.id
    from (
        select queue, max(k) as k
        from reached
        group by queue
    ) n,
        lateral (
            select o.finished_at, o.id
            from dibs.finished o
            where o.queue = n.queue and o.state = 'dead'
            order by o.finished_at desc, o.id desc
            limit n.k * 2
        ) x
    order by x.finished_at desc, x.id desc
    limit $2
)
select
    f.id,
    f.queue,
    f.kind,
    f.finished_at,
    f.attempt,
    case when length(f.error) > 1000 then concat(left(f.error, 600), '…', right(f.error, 400)) else coalesce(f.error, '') end
from newest n
cross join lateral (
    select
        d.id,
        d.queue,
        d.kind,
        d.finished_at,
        d.attempt,
        d.errors -> -1 ->> 'error' as error
    from dibs.finished d
    where d.id = any (array[n.id])
    offset 0
) f
order by n.finished_at desc, n.id desc
