-- Purpose: end claims whose lease has ended, with one outcome.
-- Parameters: {{if .Named}}batch, a JSON array of {"k": key}{{else}}passed, a JSON array of keys to leave out{{end}}.
-- Columns out: the keys of the rows that were changed.
-- Concurrency: skips rows that another transaction has locked, for example to finish them; it locks as claim.sql does.
{{- if not .Named}}
select concat('{"k":', {{.Key}}, '}')
from {{.Table}} t
where {{.Late}}
and {{.NotPassed}}
limit 1000
-- then
{{- end}}
select x.dibs_item
from (select {{.KeyItems (.Part "k")}}, v.value as dibs_item from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.Late}}
for update skip locked
-- then
{{- if .Sets}}
update (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
set {{.Sets}}
{{- else}}
delete t
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
{{- end}}
-- then
select {{.KeyFrom "x"}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
