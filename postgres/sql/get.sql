-- Purpose: read one job in any state.
-- Parameters: $1 id.
-- Columns out: false; id; how many jobs it waits for, 100,000 at most; the columns of the view, in its order.
-- Concurrency: one snapshot over both tables, so a job that is just finishing is
--   found in one of them; locks nothing.
select
    false,
    v.id,
    case when v.state = 'blocked' and v.flow is not null then (
        select count(*)
        from (
            select
            from dibs.edge e
            where e.child = v.id and e.open::int = 1
            limit 100000
        ) few
    ) else 0 end,
    v.*
from dibs.live_job v
where v.id = $1
union all
select
    false,
    v.id,
    0,
    v.*
from dibs.ended_job v
where v.id = $1
