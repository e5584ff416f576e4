-- Purpose: count the rows that could be claimed if their groups were not full.
-- Parameters: passed, a JSON array of keys to leave out.
-- Columns out: rows that could be claimed but for their groups; of these, rows of full groups; how many groups these are,
-- one of them, and how many rows of it are in progress.
-- Concurrency: reads only.
with busy as (
    select {{.BusyGroup}} as dibs_group, count(*) as dibs_running
    from {{.Busy}}
    group by dibs_group
),
due as (
    select b.dibs_group, b.dibs_running
    from {{.Table}} t
    left join busy b on b.dibs_group = {{.Group}} and b.dibs_running >= {{.Limit}}
    where {{.Ready}}
)
select count(*), count(d.dibs_group), count(distinct d.dibs_group), coalesce(min(d.dibs_group), ''), coalesce(max(d.dibs_running), 0)
from due d
