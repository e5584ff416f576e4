-- Purpose: find the claims that still hold among those that another statement skipped.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}, or {"k": key as text, "t": token} with a side table.
-- Columns out: their keys.
-- Concurrency: reads only. The rows that it finds are locked by another transaction, which has not committed.
{{- if .SideTable}}
select convert(s.key using utf8mb4)
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token = {{.Member "t"}} and s.lease_until > {{.Micros}}
and exists (select 1 from {{.Table}} t where {{.KeyOfSide "convert(s.key using utf8mb4)"}} and {{.Held "s"}})
{{- else}}
select {{.KeyFrom "x"}}
from (select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.Held "x"}}
{{- end}}
