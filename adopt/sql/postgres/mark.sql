-- Purpose: write into claimed rows what the mapping's claim sets.
-- Parameters: batch, a JSON array of {"k": key}; what the claim writes.
-- Columns out: the row's key, its fence, and when its lease ends.
-- Concurrency: the transaction has locked these rows and leased them.
with x as materialized (
    select {{.KeyItems "v->'k'"}}
    from jsonb_array_elements({{param "batch"}}::jsonb) v
)
update {{.Table}} t
set {{.Marks}}
from x
where {{.KeyIs "x"}}
returning {{.Out}}
