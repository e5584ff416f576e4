-- Purpose: extend leases that the rows themselves hold.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}; lease, in seconds.
-- Columns out: the row's key, its new fence, and the end of its lease.
-- Concurrency: as change.sql.
with x as materialized (
    select {{.KeyItems "v->'k'"}}, v->'f' as dibs_f
    from jsonb_array_elements({{param "batch"}}::jsonb) v
),
mine as materialized (
    select {{.KeyOf "x"}}, {{.Out}}
    from x
    join {{.Table}} t on {{.KeyIs "x"}}
    where case when {{.Held "x"}} then true else false end -- "case" makes the planner find the row by its key, whatever its statistics say
    for update of t skip locked
)
{{- if .Sets}}
update {{.Table}} t
set {{.Sets}}
from mine m
where {{.KeyIs "m"}}
returning {{.Out}}
{{- else}}
select {{.OutNames}}
from mine s
{{- end}}
