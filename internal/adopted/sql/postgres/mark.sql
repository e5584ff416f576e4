-- Purpose: write into claimed rows what the mapping's claim sets.
-- Parameters: batch, a JSON array of {"k": key}; what the claim writes.
-- Columns out: the row's key, its fence, and when its lease ends.
-- Concurrency: a claim's transaction has locked these rows and leased them; of a worker that takes back its own,
-- those that somebody else has locked are passed over.
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
