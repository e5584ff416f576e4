-- Purpose: delete from the side table the rows that other programs have ended or deleted.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: one statement in a write transaction; keeps leases that still hold.
delete from {{.Side}} as s
where s.source = {{.Source}} and s.token is null
and not exists (select 1 from {{.Table}} t where {{.KeyOfSide "s.key"}} and ({{.Unfinished}}))
