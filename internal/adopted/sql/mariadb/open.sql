-- Purpose: find the rows that have not ended, for an outcome that changes only the side table.
-- Parameters: batch, a JSON array of {"k": key, "f": fence}.
-- Columns out: their keys.
-- Concurrency: in the transaction that then changes the side table. It locks the rows, so that no
-- other transaction ends them meanwhile, and skips locked ones.
select {{.KeyFrom "x"}}
from (select {{.KeyItems (.Part "k")}}, {{.Part "f"}} as dibs_f from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
where {{.Held "x"}}
for update skip locked
