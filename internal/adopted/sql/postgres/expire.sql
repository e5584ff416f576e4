-- Purpose: end claims whose lease has ended, with one outcome.
-- Parameters: {{if .Named}}batch, a JSON array of {"k": key}{{else}}passed, a JSON array of keys to leave out{{end}}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: skips rows that another transaction has locked, for example to finish them.
with late as materialized (
    select {{.At}}
    from {{if .Named}}(select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
    join {{.Only}}{{.Table}} t on {{.KeyIs "x"}}{{else}}{{.Only}}{{.Table}} t{{end}}
    where {{.Late}}
    {{- if not .Named}}
    and {{.NotPassed}}
    limit 1000
    {{- end}}
    for update of t skip locked
)
{{- if .Sets}}
update {{.Only}}{{.Table}} t
set {{.Sets}}
{{- else}}
delete from {{.Only}}{{.Table}} t
{{- end}}
where {{.AtIn "late"}}
returning {{.Key}}
