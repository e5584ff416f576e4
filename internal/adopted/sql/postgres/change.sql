-- Purpose: end claims with one outcome: set its columns, or delete the rows.
-- Parameters: batch, a JSON array of {"k": key, "f": fence, "e": error, "r": result, "d": delay in seconds{{if .SideTable}}, "b": earliest next start, in microseconds since 1970{{end}}, "u": 1 if the attempt does not count, "o": 1 if this transaction has claimed it}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: each row is changed only while it carries exactly what its claim wrote (or, with a side table, is
-- leased there) and has not ended. Rows that another transaction has locked are skipped.
with x as materialized (
    select
        {{.KeyItems "v->'k'"}},
        v->'f' as dibs_f,
        v->>'e' as dibs_error,
        v->>'r' as dibs_result,
        (v->>'d')::float8{{if .SideTable}} - (({{.Micros}} - (v->>'b')::bigint) / 1e6){{end}} as dibs_delay,
        coalesce((v->>'u')::int, 0) as dibs_uncounted,
        coalesce((v->>'o')::int, 0) as dibs_own
    from jsonb_array_elements({{param "batch"}}::jsonb) v
),
mine as materialized (
    select
        {{.At}},
        {{.KeyOf "x"}},
        x.dibs_error,
        x.dibs_result,
        x.dibs_delay,
        x.dibs_uncounted
    from x
    join {{.Table}} t on {{.KeyIs "x"}}
    where case when {{.HeldOrOwn "x"}} then true else false end -- "case" makes the planner find the row by its key, whatever its statistics say
    for update of t skip locked
)
{{- if .Sets}}
update {{.Table}} t
set {{.Sets}}
from mine m
{{- else}}
delete from {{.Table}} t
using mine m
{{- end}}
where {{.KeyIs "m"}}
returning {{.Key}}
