-- Purpose: choose rows of a table with groups: lock those without a group, and take the turn of each group of the others.
-- Parameters: n rows at most; kinds, a JSON array or null for all; passed, a JSON array of keys to leave out; look, how many rows to read; missed, a JSON array
-- of keys not to choose, or null; turns, how many turns to take at most.
-- Columns out: the row's key, its group; then one null if it skipped rows because others have locked them or have their turn.
-- Concurrency: no claim waits. A turn is a lock that lasts as long as the transaction: a claim without it skips the
-- group's rows. Locks and turns are taken in the claim order, and only for chosen rows: so others skip a row without
-- a group only if it is claimed. The count of running rows is older than the turns, and some rows of groups may just
-- have been claimed: claim.sql counts again once the turns are held, and locks these rows.
with busy as materialized (
    select {{.BusyGroup}} as dibs_group, count(*) as dibs_running
    from {{.Busy}}
    group by 1
),
seen as materialized (
    select
        {{.At}},
        {{.Key}} as dibs_key,
        {{.Group}} as dibs_group,
        coalesce(b.dibs_running, 0) as dibs_running,
        {{.OrderAs}}
    from {{.Only}}{{.Table}} t
    left join busy b on b.dibs_group = {{.Group}}
    where {{.Ready}}
    and coalesce(b.dibs_running, 0) < {{.Limit}}
    order by {{.Order}}
    limit {{param "look"}}::int
),
placed as (
    select
        {{.AtOf "s"}},
        {{.OrderOf "s"}},
        s.dibs_key,
        s.dibs_group,
        s.dibs_running,
        row_number() over (partition by s.dibs_group order by {{.OrderBy "s"}}) as dibs_place
    from seen s
),
chosen as materialized (
    select
        {{.AtOf "p"}},
        p.dibs_key,
        p.dibs_group,
        count(case when p.dibs_place = 1 then p.dibs_group end) over (order by {{.OrderBy "p"}}) as dibs_groups
    from placed p
    where (p.dibs_group is null or (p.dibs_running + p.dibs_place) <= {{.Limit}})
    and ({{param "missed"}}::text is null or not {{.Among "p.dibs_key" (param "missed")}})
    order by {{.OrderBy "p"}}
),
picked as materialized (
    select c.dibs_key, c.dibs_group
    from chosen c
    cross join lateral (
        select case
            when c.dibs_group is null then exists (
                select
                from {{.Only}}{{.Table}} t
                where {{.AtIs "c"}} and {{.Ready}}
                for update of t skip locked
            )
            when {{param "n"}}::int <= {{param "turns"}}::int or c.dibs_groups <= {{param "turns"}}::int
            then pg_try_advisory_xact_lock(hashtextextended(c.dibs_group, {{.Turn}}))
            else false
        end as has
        offset 0
    ) turn
    where turn.has
    limit {{param "n"}}::int
)
select dibs_key, dibs_group
from picked
union all
select null, null
where (select count(*) from picked) < least({{param "n"}}::int, (select count(*) from chosen))
