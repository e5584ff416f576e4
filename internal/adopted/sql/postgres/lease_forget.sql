-- Purpose: delete from the side table the rows that other programs have ended or deleted.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: keeps leases that still hold, and skips rows that another transaction has locked.
delete from {{.Side}} s
where s.ctid = any (array(
    select s.ctid
    from {{.Side}} s
    where s.source = {{.Source}} and s.token is null
    and (exists (select from {{.Table}} t where {{.KeyOfSide "(s.key::jsonb)"}} and ({{.Unfinished}}))) is not true -- as in lease_requeue.sql
    limit 1000
    for update of s skip locked
))
