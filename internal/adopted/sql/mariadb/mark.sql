-- Purpose: write the columns of the mapping's claim into claimed rows.
-- Parameters: batch, a JSON array of {"k": key}; the values that the claim writes.
-- Columns out: the row's key, its fence, and the end of its lease.
-- Concurrency: a claim's transaction has locked these rows{{if .SideTable}} and leased them. For a worker that takes back its own rows,
-- it skips those that another transaction has locked{{end}}.
{{- if .SideTable}}
select x.dibs_item
from (select {{.KeyItems (.Part "k")}}, v.value as dibs_item from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
for update skip locked
-- then
{{- end}}
update (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
set {{.Marks}}
-- then
select {{.Out}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
