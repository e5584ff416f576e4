-- Purpose: delete ended rows from the side table.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: none.
-- Concurrency: the transaction has locked them.
delete s
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
