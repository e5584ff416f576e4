-- Purpose: extend leases that the rows themselves hold.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}; lease, in seconds.
-- Columns out: the row's key, its new fence, and the end of its lease.
-- Concurrency: as change.sql.
select x.dibs_item
from (select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f, v.value as dibs_item from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.Held "x"}}
for update skip locked
-- then
{{- if .Sets}}
update (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
set {{.Sets}}
-- then
{{- end}}
select {{.Out}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
