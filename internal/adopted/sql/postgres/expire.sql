-- Purpose: end claims whose lease has ended, with one outcome.
-- Parameters: none.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: skips rows that another transaction has locked, for example to finish them.
with late as materialized (
    select {{.At}}
    from {{.Only}}{{.Table}} t
    where {{.Late}}
    limit 1000
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
