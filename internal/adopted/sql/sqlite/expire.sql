-- Purpose: end claims whose lease has ended, with one outcome.
-- Parameters: {{if .Named}}batch, a JSON array of {"k": key}{{else}}passed, a JSON array of keys to leave out{{end}}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: one statement in a write transaction.
{{- if .Sets}}
update {{.Table}} as t
set {{.Sets}}
{{- else}}
delete from {{.Table}} as t
{{- end}}
where {{.Late}}
and {{if .Named}}exists (select 1 from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x where {{.KeyIs "x"}}){{else}}{{.NotPassed}}{{end}}
returning {{bare .Key}}
