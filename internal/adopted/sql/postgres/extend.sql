-- Purpose: move the ends of leases that the rows themselves hold.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}; lease, in seconds.
-- Columns out: the row's key, its fence from now on, and when its lease ends.
-- Concurrency: as change.sql.
with x as materialized (
    select {{.KeyItems "v->'k'"}}, v->'f' as dibs_f
    from jsonb_array_elements({{param "batch"}}::jsonb) v
),
mine as materialized (
    select {{.KeyOf "x"}}, {{.Out}}
    from x
    join {{.Table}} t on {{.KeyIs "x"}}
    where case when {{.Held "x"}} then true else false end -- found by its key, whatever statistics say of the rest
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
