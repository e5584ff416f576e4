-- Purpose: write the columns of the mapping's claim into claimed rows.
-- Parameters: batch, a JSON array of {"k": key}; the values that the claim writes.
-- Columns out: the row's key, its fence, and the end of its lease.
-- Concurrency: a claim's transaction has locked these rows and leased them. For a worker that takes back its own rows,
-- it skips those that another transaction has locked.
with x as materialized (
    select {{.KeyItems "v->'k'"}}
    from jsonb_array_elements({{param "batch"}}::jsonb) v
),
mine as materialized (
    select {{.KeyOf "x"}}
    from x
    join {{.Table}} t on {{.KeyIs "x"}}
    for update of t skip locked
)
update {{.Table}} t
set {{.Marks}}
from mine m
where {{.KeyIs "m"}}
returning {{.Out}}
