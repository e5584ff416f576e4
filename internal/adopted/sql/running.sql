-- Purpose: count what runs of the queue, no further than its limit.
-- Parameters: none.
-- Columns out: how many.
-- Concurrency: runs after alone.sql, or on SQLite in the one write transaction, so that no other claim is between its own count and its commit.
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
