-- Purpose: {{if .Mine}}give a restarted worker the rows that it holds{{else}}take rows that are available{{end}}, in the mapping's order; with groups, no more rows of a group than its limit.
-- Parameters: n rows at most; kinds, a JSON array or null for all; passed, a JSON array of keys to leave out; with groups: batch, a JSON array of {"k": key}, and
-- held, a JSON array of groups; else look, how many rows to read.
-- Columns out: the row's key, its fence, times, kind, group and payload.
-- Concurrency: it finds rows without locks, then locks each by its id alone, checks the conditions again on its newest version, and skips
-- locked ones: a locking read of another index would keep entries locked of rows that it passes over. With groups it runs after turn.sql,
-- in a transaction whose session has the turn of each group in held: no other claim takes rows of these groups.
{{- if .Group}}
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
    from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
    straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
    left join busy b on b.dibs_group = {{.Group}}
    where {{.Ready}}
    and ({{.Group}} is null or {{.Among .Group (param "held")}})
),
placed as (
    select
        {{.OrderOf "s"}},
        s.dibs_key,
        s.dibs_group,
        s.dibs_running + row_number() over (partition by s.dibs_group order by {{.OrderBy "s"}}) as dibs_place
    from seen s
)
select concat('{"k":', p.dibs_key, '}')
from placed p
where p.dibs_group is null or p.dibs_place <= {{.Limit}}
order by {{.OrderBy "p"}}
{{- else}}
select concat('{"k":', {{.Key}}, '}')
from {{.Table}} t
where {{.Ready}}
order by {{.Order}}
limit {{param "look"}}
{{- end}}
-- then
select {{.Out}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.Ready}}
limit {{param "n"}}
for update skip locked
