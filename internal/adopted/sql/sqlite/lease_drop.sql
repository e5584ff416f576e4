-- Purpose: delete ended rows from the side table.
-- Parameters: batch, a JSON array of {"k": key as text}.
-- Columns out: none.
-- Concurrency: in the write transaction that has found the leases.
delete from {{.Side}}
where source = {{.Source}} and key in (select v.value ->> 'k' from json_each({{param "batch"}}) v)
