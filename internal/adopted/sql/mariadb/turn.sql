-- Purpose: choose rows of a table with groups, and take the turn of each of their groups.
-- Parameters: n rows at most; kinds, a JSON array or null for all; passed, a JSON array of keys to leave out; look, how many rows to read; missed, a JSON array
-- of keys not to choose, or null; turns, how many turns to take at most.
-- Columns out: the row's key, its group; both are null for the last row that was read if another claim has its turn.
-- Concurrency: no claim waits. A turn is a lock of the session, which is released after the transaction has ended: a claim without it skips the
-- group's rows. Turns are taken in the claim order, and only for chosen rows. The count of running rows is older than the turns, and some
-- rows may just have been claimed: claim.sql counts again once the turns are held, and locks the rows.
with busy as (
    select {{.BusyGroup}} as dibs_group, count(*) as dibs_running
    from {{.Busy}}
    group by dibs_group
),
seen as (
    select
        {{.Key}} as dibs_key,
        {{.Group}} as dibs_group,
        coalesce(b.dibs_running, 0) as dibs_running,
        {{.OrderAs}}
    from {{.Table}} t
    left join busy b on b.dibs_group = {{.Group}}
    where {{.Ready}}
    and coalesce(b.dibs_running, 0) < {{.Limit}}
    order by {{.Order}}
    limit {{param "look"}}
),
placed as (
    select
        {{.OrderOf "s"}},
        s.dibs_key,
        s.dibs_group,
        s.dibs_running,
        row_number() over (partition by s.dibs_group order by {{.OrderBy "s"}}) as dibs_place
    from seen s
),
chosen as (
    select
        p.dibs_key,
        p.dibs_group,
        count(case when p.dibs_place = 1 then p.dibs_group end) over (order by {{.OrderBy "p"}}) as dibs_groups,
        row_number() over (order by {{.OrderBy "p"}}) as dibs_nth,
        count(*) over () as dibs_all
    from placed p
    where (p.dibs_group is null or p.dibs_running + p.dibs_place <= {{.Limit}})
    and {{.NotAmong "p.dibs_key" (param "missed")}}
),
sorted as (
    select c.dibs_key, c.dibs_group, c.dibs_groups, c.dibs_nth, c.dibs_all
    from chosen c
    order by c.dibs_nth
    limit 2147483647
)
select case when x.dibs_has = 1 then x.dibs_key end, case when x.dibs_has = 1 then x.dibs_group end
from (
    select
        s.dibs_key,
        s.dibs_group,
        s.dibs_nth,
        s.dibs_all,
        case
            when s.dibs_group is null then 1
            when {{param "n"}} <= {{param "turns"}} or s.dibs_groups <= {{param "turns"}}
            then coalesce( get_lock(concat('dibs-', sha1({{.TurnOf "s.dibs_group"}})), 0), 0)
            else 0
        end as dibs_has
    from sorted s
    having dibs_has = 1 or s.dibs_nth = s.dibs_all
    limit {{param "n"}}
) x
