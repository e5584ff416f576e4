-- Purpose: list jobs of one final state, last finished first.
-- Parameters: $1 queue, $2 kind, $3 group, each '' for all; $4 state; $5 time, or null for all, and $6 id
--   before which the list begins; $7 how many; $8 how many jobs to look at; $9 worker, $10 a
--   part of the last error and $11 of the payload, each '' for all; $12 time of the first end.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   ended_job. If the list stops before it has $7 jobs or all, one row is the first
--   job that it has not looked at.
-- Concurrency: one snapshot of finished rows only; locks nothing. Each queue contributes
--   its own newest jobs. If anything but queue, state and time narrows the list, each queue looks
--   at 100 jobs and its share of $8, and the list ends at the latest time where one of them stops.
with bound as materialized (
    select b.finished_at, b.id
    from dibs.queue n,
        lateral (
            select o.finished_at, o.id
            from dibs.finished o
            where ($2 <> '' or $3 <> '' or $9 <> '' or $10 <> '' or $11 <> '')
                and o.queue = n.name and o.state = $4
                and (o.finished_at, o.id) < (coalesce($5::timestamptz, 'infinity'), $6::bigint)
                and o.finished_at >= $12
            order by o.finished_at desc, o.id desc
            offset 99 + ($8::bigint / (select count(*) from dibs.queue where ($1 = '' or $1 = name)))
            limit 1
        ) b
    where ($1 = '' or $1 = n.name)
    order by b.finished_at desc, b.id desc
    limit 1
), page as materialized (
    select x.finished_at, x.id, x.searched
    from (
        select q.name
        from dibs.queue q,
            lateral (
                select o.finished_at, o.id
                from dibs.finished o
                where o.queue = q.name and o.state = $4
                    and (o.finished_at, o.id) < (coalesce($5::timestamptz, 'infinity'), $6::bigint)
                    and o.finished_at >= $12
                    and (o.finished_at, o.id) >= (
                        coalesce((select finished_at from bound), '-infinity'),
                        coalesce((select id from bound), '-9223372036854775808')
                    )
                    and (
                        o.id = (select id from bound)
                        or (
                            ($2 = '' or $2 = o.kind)
                            and ($3 = '' or o.group_key = $3)
                            and ($9 = '' or o.worker = $9)
                            and ($10 = '' or strpos(o.errors -> -1 ->> 'error', $10) > 0)
                            and ($11 = '' or strpos(coalesce(o.payload, (select w.payload from dibs.payload w where w.id = o.id)), $11) > 0)
                        )
                    )
                order by o.finished_at desc, o.id desc
                limit 1
            ) h
        where ($1 = '' or $1 = q.name)
        order by h.finished_at desc, h.id desc
        limit $7
    ) n,
        lateral (
            select o.finished_at, o.id, coalesce(o.id = (select id from bound), false) as searched
            from dibs.finished o
            where o.queue = n.name and o.state = $4
                and (o.finished_at, o.id) < (coalesce($5::timestamptz, 'infinity'), $6::bigint)
                and o.finished_at >= $12
                and (o.finished_at, o.id) >= (
                    coalesce((select finished_at from bound), '-infinity'),
                    coalesce((select id from bound), '-9223372036854775808')
                )
                and (
                    o.id = (select id from bound)
                    or (
                        ($2 = '' or $2 = o.kind)
                        and ($3 = '' or o.group_key = $3)
                        and ($9 = '' or o.worker = $9)
                        and ($10 = '' or strpos(o.errors -> -1 ->> 'error', $10) > 0)
                        and ($11 = '' or strpos(coalesce(o.payload, (select w.payload from dibs.payload w where w.id = o.id)), $11) > 0)
                    )
                )
            order by o.finished_at desc, o.id desc
            limit $7
        ) x
    order by x.finished_at desc, x.id desc
    limit $7
)
select p.searched, p.id, 0, v.*
from page p
cross join lateral (
    select f.*
    from dibs.ended_job f
    where f.id = any (array[p.id])
    offset 0
) v
order by p.finished_at desc, p.id desc
