-- Purpose: tell which rows have not ended, where an outcome changes the side table only.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}.
-- Columns out: their keys.
-- Concurrency: in the transaction that then changes the side table. Where rows can be locked, they are, so that nobody ends them
-- meanwhile, and what is locked is passed over.
select {{.Key}}
from (select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f from {{.Batch}}) x
cross join {{.Table}} t
where {{.KeyIs "x"}}
and {{.Held "x"}}
{{- if .Dialect.RowLocks}}
for update of t skip locked
{{- end}}
