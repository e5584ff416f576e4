-- Purpose: end claims with one outcome: set its columns, or delete the rows.
-- Parameters: batch, a JSON array of {"k": key, "f": fence, "e": error, "r": result, "d": delay in seconds{{if .SideTable}}, "b": earliest next start, in microseconds since 1970{{end}}, "u": 1 if the attempt does not count, "o": 1 if this transaction has claimed it}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: each row is changed only while it carries exactly what its claim wrote (or, with a side table, is
-- leased there) and has not ended; in a write transaction.
{{- if .Sets}}
update {{.Table}} as t
set {{.Sets}}
from (
    select
        {{.KeyItems "v.value ->> 'k'"}},
        v.value -> 'f' as dibs_f,
        v.value ->> 'e' as dibs_error,
        v.value ->> 'r' as dibs_result,
        v.value ->> 'd'{{if .SideTable}} - ({{.Micros}} - (v.value ->> 'b')) / 1e6{{end}} as dibs_delay,
        coalesce(v.value ->> 'u', 0) as dibs_uncounted,
        coalesce(v.value ->> 'o', 0) as dibs_own
    from json_each({{param "batch"}}) v
) m
where {{.KeyIs "m"}}
and {{.HeldOrOwn "m"}}
{{- else}}
delete from {{.Table}} as t
where exists (
    select 1
    from (select {{.KeyItems "v.value ->> 'k'"}}, v.value -> 'f' as dibs_f, coalesce(v.value ->> 'o', 0) as dibs_own from json_each({{param "batch"}}) v) m
    where {{.KeyIs "m"}}
    and {{.HeldOrOwn "m"}}
)
{{- end}}
returning {{bare .Key}}
