-- Purpose: find the rows that have not ended, for an outcome that changes only the side table.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}.
-- Columns out: their keys.
-- Concurrency: in the transaction that then changes the side table. If the database has row locks, it locks the rows, so that no
-- other transaction ends them meanwhile, and skips locked ones.
select {{.Key}}
from (select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f from {{.Batch}}) x
cross join {{.Table}} t
where {{.KeyIs "x"}}
and {{.Held "x"}}
{{- if .Dialect.RowLocks}}
for update of t skip locked
{{- end}}
