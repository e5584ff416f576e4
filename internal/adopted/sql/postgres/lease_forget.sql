-- Purpose: forget what the side table knows of rows that have ended without us, or are gone.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: leases that hold are left to their owners, and what somebody else has locked is passed over.
delete from {{.Side}} s
where s.ctid = any (array(
    select s.ctid
    from {{.Side}} s
    where s.source = {{.Source}} and s.token is null
    and (exists (select from {{.Table}} t where {{.KeyOfSide "(s.key::jsonb)"}} and ({{.Unfinished}}))) is not true -- as in lease_requeue.sql
    limit 1000
    for update of s skip locked
))
