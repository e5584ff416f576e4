-- Purpose: write into claimed rows what the mapping's claim sets.
-- Parameters: batch, a JSON array of {"k": key}; what the claim writes.
-- Columns out: the row's key, its fence, and when its lease ends.
-- Concurrency: in the write transaction that has chosen the rows.
update {{.Table}} as t
set {{.Marks}}
from (select {{.KeyItems "v.value ->> 'k'"}} from json_each({{param "batch"}}) v) x
where {{.KeyIs "x"}}
returning {{bare .Out}}
