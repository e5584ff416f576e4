-- Purpose: read rows by their keys, as they are now.
-- Parameters: batch, a JSON array of {"k": key}.
-- Columns out: the row's key, its fence, times, kind, group and payload, and whether its claim still lasts.
-- Concurrency: reads only.
select
    {{.Out}},
    case when {{.Live}} then 1 else 0 end
from (select {{.KeyItems "v->'k'"}} from jsonb_array_elements({{param "batch"}}::jsonb) v) x
join {{.Table}} t on {{.KeyIs "x"}}
order by {{.Order}}
