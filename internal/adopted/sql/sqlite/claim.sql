-- Purpose: {{if .Mine}}choose the rows that a restarted worker holds{{else}}choose rows that are available{{end}}, in the mapping's order; with groups, no more rows of a group than its limit.
-- Parameters: n rows at most; kinds, a JSON array or null for all; passed, a JSON array of keys to leave out; with groups: look, how many rows to read.
-- Columns out: the row's key, times, kind, group and payload.
-- Concurrency: runs in the database's only write transaction, which also marks the chosen rows.
{{- if .Group}}
with busy as materialized (
    select {{.BusyGroup}} as dibs_group, count(*) as dibs_running
    from {{.Busy}}
    group by 1
),
seen as materialized (
    select
        {{.At}},
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
        {{.AtOf "s"}},
        {{.OrderOf "s"}},
        s.dibs_group,
        s.dibs_running + row_number() over (partition by s.dibs_group order by {{.OrderBy "s"}}) as dibs_place
    from seen s
),
chosen as materialized (
    select {{.AtOf "p"}}
    from placed p
    where p.dibs_group is null or p.dibs_place <= {{.Limit}}
    order by {{.OrderBy "p"}}
    limit {{param "n"}}
)
{{- end}}
select {{.Out}}
from {{.Table}} t
where {{if .Group}}{{.AtIn "chosen"}}{{else}}{{.Ready}}{{end}}
order by {{.Order}}
limit {{param "n"}}
