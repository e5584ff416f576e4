-- Purpose: end claims whose lease is over, in the way of one outcome.
-- Parameters: none.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: rows that somebody else has locked, such as those that are just being finished, are passed over.
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
