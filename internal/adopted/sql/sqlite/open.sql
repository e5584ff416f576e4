-- Purpose: tell which rows have not ended, where an outcome changes the side table only.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}.
-- Columns out: their keys.
-- Concurrency: in the write transaction that then changes the side table.
select {{.Key}}
from (select {{.KeyItems "v.value ->> 'k'"}}, v.value -> 'f' as dibs_f from json_each({{param "batch"}}) v) x
cross join {{.Table}} t
where {{.KeyIs "x"}}
and {{.Held "x"}}
