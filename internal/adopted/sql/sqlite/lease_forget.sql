-- Purpose: forget what the side table knows of rows that have ended without us, or are gone.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: one statement in a write transaction; leases that hold are left to their owners.
delete from {{.Side}} as s
where s.source = {{.Source}} and s.token is null
and not exists (select 1 from {{.Table}} t where {{.KeyOfSide "s.key"}} and ({{.Unfinished}}))
