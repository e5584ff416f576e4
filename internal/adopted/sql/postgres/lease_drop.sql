-- Purpose: delete ended rows from the side table.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: none.
-- Concurrency: the transaction has locked them.
delete from {{.Side}} s
using jsonb_array_elements({{param "batch"}}::jsonb) v
where s.source = {{.Source}} and s.key = (v->>'k')
