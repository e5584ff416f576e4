-- Purpose: tell which rows have not ended, where an outcome changes the side table only.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}.
-- Columns out: their keys.
-- Concurrency: locks them for this transaction, so that nobody ends them meanwhile; passes over what is locked.
select {{.Key}}
from (select {{.KeyItems "v->'k'"}}, v->'f' as dibs_f from jsonb_array_elements({{param "batch"}}::jsonb) v) x
join {{.Table}} t on {{.KeyIs "x"}}
where {{.Held "x"}}
for update of t skip locked
