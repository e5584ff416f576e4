-- Purpose: list waiting and blocked jobs, or all that are not final, newest first.
-- Parameters: $1 queue, $2 kind, $3 group, $4 state, each '' for all; $5 only ids
--   below this one; $6 how many; $7 how many jobs to look at; $8 worker, $9 a part of the last
--   error and $10 of the payload, each '' for all; $11 whether only jobs whose run_at has not come.
-- Columns out: whether the row only marks how far the list has looked; id; how many jobs it
--   waits for, 1,000 at most; the columns of live_job. If the list stops before it has $6 jobs or all, one row is the last job
--   that it has looked at.
-- Concurrency: one snapshot; locks nothing. Jobs of a queue with up to 1,000 are read by
--   the indexes that begin with the queue; otherwise jobs are read along the primary key.
with few as materialized (
    (select id from dibs.job where $1 <> '' and queue = $1 and gate = 0 limit 1001)
    union all
    (select id from dibs.job where $1 <> '' and queue = $1 and gate = 1 limit 1001)
    union all
    (select id from dibs.job where $1 <> '' and queue = $1 and gate = 2 limit 1001)
    union all
    (select id from dibs.job where $1 <> '' and queue = $1 and gate = 3 limit 1001)
    union all
    (select id from dibs.job where $1 <> '' and queue = $1 and gate = 5 limit 1001)
), clock as materialized (
    select clock_timestamp() as at
), way as materialized (
    select $1 = '' or count(*) > 1000 as along_id
    from few
), matched as materialized (
    (select f.id
    from few i
    join dibs.job f on f.id = any (array[i.id])
    where not (select along_id from way)
        and f.id < $5
        and ($2 = '' or $2 = f.kind)
        and ($3 = '' or f.group_key = $3)
        and ($8 = '' or f.worker = $8)
        and ($9 = '' or strpos(f.errors -> -1 ->> 'error', $9) > 0)
        and (not $11 or f.run_at > (select at from clock))
        and ($10 = '' or strpos(coalesce(f.payload, (select w.payload from dibs.payload w where w.id = f.id)), $10) > 0)
        and $4 in ('', case when f.token is not null then 'running' when f.gate in (1, 5) then 'blocked' else 'waiting' end)
    order by f.id desc
    limit $6)
    union all
    (select w.id
    from (
        select r.id, r.queue, r.kind, r.group_key, r.token, r.gate, r.worker, r.errors, r.payload, r.run_at
        from dibs.job r
        where (select along_id from way) and r.id < $5
        order by r.id desc
        limit $7
    ) w
    where ($1 = '' or $1 = w.queue)
        and ($2 = '' or $2 = w.kind)
        and ($3 = '' or w.group_key = $3)
        and ($8 = '' or w.worker = $8)
        and ($9 = '' or strpos(w.errors -> -1 ->> 'error', $9) > 0)
        and (not $11 or w.run_at > (select at from clock))
        and ($10 = '' or strpos(coalesce(w.payload, (select x.payload from dibs.payload x where x.id = w.id)), $10) > 0)
        and $4 in ('', case when w.token is not null then 'running' when w.gate in (1, 5) then 'blocked' else 'waiting' end)
    order by w.id desc
    limit $6)
), page as materialized (
    select id, false as searched
    from matched
    union all
    (select b.id, true
    from dibs.job b
    where (select along_id from way) and (select count(*) from matched) < $6 and b.id < $5
    order by b.id desc
    offset $7 - 1
    limit 1)
)
select
    p.searched,
    p.id,
    case when v.state = 'blocked' and v.flow is not null then (
        select count(*)
        from (
            select
            from dibs.edge e
            where e.child = v.id and e.open::int = 1
            limit 1000
        ) few
    ) else 0 end,
    v.*
from page p
cross join lateral (
    select j.*
    from dibs.live_job j
    where j.id = any (array[p.id])
    offset 0
) v
order by p.searched, p.id desc
