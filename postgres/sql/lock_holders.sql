-- Purpose: lock the waiting jobs that hold unique keys, before they are changed.
-- Parameters: as holders.sql.
-- Columns out: ord (place in the arrays, from 1), id, created_at, run_at.
-- Concurrency: a job that is being claimed is waited for. If it then runs, it is not
--   returned; if the claim was rolled back, it is. From then on claims skip it until this
--   transaction ends. Jobs are locked in the order of their ids.
with found as materialized (
    select n.ord, n.period_key, coalesce((
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
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality as n (queue, unique_key, period_key, ord)
)
select f.ord, j.id, j.created_at, j.run_at
from (
    select ord, period_key, id
    from found
    where id is not null
    order by id
    offset 0
) f
cross join lateral (
    select h.id, h.created_at, h.run_at
    from dibs.job h
    where h.id = f.id and h.token is null and (h.unique_held or f.period_key is not null)
    offset 0
    for no key update
) j
