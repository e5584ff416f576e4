-- Purpose: end claims with one outcome: set its columns, or delete the rows.
-- Parameters: batch, a JSON array of {"k": key, "f": fence, "e": error, "r": result, "d": delay in seconds{{if .SideTable}}, "b": earliest next start, in microseconds since 1970{{end}}, "u": 1 if the attempt does not count, "o": 1 if this transaction has claimed it}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: each row is changed only while it carries exactly what its claim wrote (or, with a side table, is
-- leased there) and has not ended. Rows that another transaction has locked are skipped.
select x.dibs_item
from (
    select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f, coalesce({{.Member "o"}}, 0) as dibs_own, v.value as dibs_item
    from {{.Batch}}
) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.HeldOrOwn "x"}}
for update skip locked
-- then
{{- if .Sets}}
update (
    select
        {{.KeyItems (.Part "k")}},
        {{.Member "e"}} as dibs_error,
        {{.Member "r"}} as dibs_result,
        cast({{.Member "d"}} as double){{if .SideTable}} - (({{.Micros}} - cast({{.Member "b"}} as signed)) / 1e6){{end}} as dibs_delay,
        cast(coalesce({{.Member "u"}}, 0) as signed) as dibs_uncounted
    from {{.Batch}}
) m
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "m"}}
set {{.Sets}}
{{- else}}
delete t
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) m
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "m"}}
{{- end}}
-- then
select {{.KeyFrom "x"}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
