-- Purpose: {{if .Mine}}give a restarted worker the rows that it holds{{else}}take rows that are available{{end}}, in the mapping's order; with groups, no more rows of a group than its limit.
-- Parameters: n rows at most; kinds, a JSON array or null for all; passed, a JSON array of keys to leave out; with groups: batch, a JSON array of {"k": key}, and
-- held, a JSON array of groups; the values that the claim writes.
-- Columns out: the row's key, its fence, times, kind, group and payload.
-- Concurrency: one statement. It skips locked rows, locks the others, and checks the conditions again on their newest
-- versions. With groups it runs after turn.sql, in a transaction that has locked the batch's rows without a group, and
-- has the turn of each group in held: no other claim takes rows of these groups.
with
{{- if .Group}}
busy as materialized (
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
    from (select {{.KeyItems "v->'k'"}} from jsonb_array_elements({{param "batch"}}::jsonb) v) x
    join {{.Only}}{{.Table}} t on {{.KeyIs "x"}}
    left join busy b on b.dibs_group = {{.Group}}
    where case when {{.Ready}} then true else false end -- as in change.sql
    and ({{.Group}} is null or {{.Group}} in (select jsonb_array_elements_text({{param "held"}}::jsonb)))
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
),
{{- end}}
picked as materialized (
    select
        {{.At}}{{if not .Marks}},
        {{.OrderAs}},
        {{.Out}}{{end}}
    from {{.Only}}{{.Table}} t
    where {{.Ready}}
    {{- if .Group}}
    and {{.AtIn "chosen"}}
    {{- end}}
    order by {{.Order}}
    limit {{param "n"}}::int
    for update of t skip locked
)
{{- if .Marks}},
taken as (
    update {{.Only}}{{.Table}} t
    set {{.Marks}}
    where {{.AtIn "picked"}}
    returning
        {{.OrderAs}},
        {{.Out}}
)
{{- end}}
select {{.OutNames}}
from {{if .Marks}}taken{{else}}picked{{end}} s
order by {{.OrderBy "s"}}
