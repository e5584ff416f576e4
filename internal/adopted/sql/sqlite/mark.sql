-- Purpose: write the columns of the mapping's claim into claimed rows.
-- Parameters: batch, a JSON array of {"k": key}; the values that the claim writes.
-- Columns out: the row's key, its fence, and the end of its lease.
-- Concurrency: in the write transaction that has chosen the rows.
update {{.Table}} as t
set {{.Marks}}
from (select {{.KeyItems "v.value ->> 'k'"}} from json_each({{param "batch"}}) v) x
where {{.KeyIs "x"}}
returning {{bare .Out}}
