-- Purpose: count what runs of the queue, no further than its limit.
-- Parameters: none.
-- Columns out: how many.
-- Concurrency: runs in a write transaction, of which there is one at a time.
select count(*)
from (
    {{- if .SideTable}}
    select 1
    from {{.Side}} s
    where s.source = {{.Source}} and s.queue = {{.Name}} and s.token is not null
    {{- end}}
    {{- if .Marked}}
    {{- if .SideTable}}
    union all
    {{- end}}
    select 1
    from {{.Table}} t
    where {{.BusyRow}}
    {{- end}}
    limit {{.Concurrency}}
) r
