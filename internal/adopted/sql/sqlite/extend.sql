-- Purpose: extend leases that the rows themselves hold.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}; lease, in seconds.
-- Columns out: the row's key, its new fence, and the end of its lease.
-- Concurrency: as change.sql.
{{- if .Sets}}
update {{.Table}} as t
set {{.Sets}}
from (select {{.KeyItems "v.value ->> 'k'"}}, v.value -> 'f' as dibs_f from json_each({{param "batch"}}) v) m
where {{.KeyIs "m"}}
and {{.Held "m"}}
returning {{bare .Out}}
{{- else}}
select {{.Out}}
from (select {{.KeyItems "v.value ->> 'k'"}}, v.value -> 'f' as dibs_f from json_each({{param "batch"}}) v) m
cross join {{.Table}} t
where {{.KeyIs "m"}}
and {{.Held "m"}}
{{- end}}
