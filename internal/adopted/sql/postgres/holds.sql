-- Purpose: find the claims that still hold among those that another statement skipped.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}, or {"k": key as text, "t": token} with a side table.
-- Columns out: their keys.
-- Concurrency: reads only. The rows that it finds are locked by another transaction, which has not committed.
{{- if .SideTable}}
select s.key
from jsonb_array_elements({{param "batch"}}::jsonb) v
join {{.Side}} s on s.source = {{.Source}} and s.key = (v->>'k')
where case when s.token = (v->>'t') and s.lease_until > {{.Micros}} then true else false end -- as in change.sql
and exists (select from {{.Table}} t where {{.KeyOfSide "(s.key::jsonb)"}} and case when {{.Held "s"}} then true else false end)
{{- else}}
select {{.Key}}
from (
    select {{.KeyItems "v->'k'"}}, v->'f' as dibs_f
    from jsonb_array_elements({{param "batch"}}::jsonb) v
) x
join {{.Table}} t on {{.KeyIs "x"}}
where case when {{.Held "x"}} then true else false end -- as in change.sql
{{- end}}
