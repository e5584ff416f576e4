-- Purpose: count the running rows of the queue, up to its limit.
-- Parameters: none.
-- Columns out: number of running rows.
-- Concurrency: the transaction has the lock of alone.sql, or SQLite's write lock, so no other claim is between its count and its commit.
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
