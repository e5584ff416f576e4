-- Purpose: choose rows of a table with groups, and take the turn of each group that one of them is in.
-- Parameters: n rows at most; kinds, a JSON array or null for all; look: how many rows are looked at.
-- Columns out: the row's key, its group; last, if rows were passed over because others have their turn, a null.
-- Concurrency: nobody waits. A turn is a lock that lasts as long as the transaction: who has not got it passes over
-- the group's rows. A row without a group has a turn of its own. No more turns are taken than rows are chosen.
-- What runs is counted again once the turns are held, by claim.sql: this count is older than they are.
with busy as materialized (
    select {{.BusyGroup}} as dibs_group, count(*) as dibs_running
    from {{.Busy}}
    group by 1
),
seen as materialized (
    select
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
        {{.OrderOf "s"}},
        s.dibs_key,
        s.dibs_group,
        s.dibs_running + row_number() over (partition by s.dibs_group order by {{.OrderBy "s"}}) as dibs_place
    from seen s
),
chosen as materialized (
    select p.dibs_key, p.dibs_group
    from placed p
    where p.dibs_group is null or p.dibs_place <= {{.Limit}}
    order by {{.OrderBy "p"}}
),
picked as materialized (
    select c.dibs_key, c.dibs_group
    from chosen c
    cross join lateral (
        select case
            when c.dibs_group is null then pg_try_advisory_xact_lock(hashtextextended(c.dibs_key, -{{.Turn}}))
            else pg_try_advisory_xact_lock(hashtextextended(c.dibs_group, {{.Turn}}))
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
