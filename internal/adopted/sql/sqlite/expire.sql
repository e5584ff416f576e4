-- Purpose: end claims whose lease has ended, with one outcome.
-- Parameters: none.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: one statement in a write transaction.
{{- if .Sets}}
update {{.Table}} as t
set {{.Sets}}
{{- else}}
delete from {{.Table}} as t
{{- end}}
where {{.Late}}
returning {{bare .Key}}
