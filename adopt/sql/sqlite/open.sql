-- Purpose: tell which rows have not ended, where an outcome changes the side table only.
-- Parameters: batch, a JSON array of {"k": key}.
-- Columns out: their keys.
-- Concurrency: in the write transaction that then changes the side table.
select {{.Key}}
from (select {{.KeyItems "v.value ->> 'k'"}} from json_each({{param "batch"}}) v) x
cross join {{.Table}} t
where {{.KeyIs "x"}}
and {{.Held "x"}}
