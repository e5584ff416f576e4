-- Purpose: read rows by their keys.
-- Parameters: batch, a JSON array of {"k": key}.
-- Columns out: the row's key, its fence, times, kind, group and payload, its state, and the start of its claim.
-- Concurrency: reads only.
select
    {{.Out}},
    {{.State}},
    {{.Since}}
from (select {{.KeyItems (.Part "k")}} from {{.Batch}}) x
straight_join {{.Table}} t {{.ByKey}} on {{.KeyIs "x"}}
order by {{.Order}}
