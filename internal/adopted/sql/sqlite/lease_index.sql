-- Purpose: index the ends of leases.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: changes nothing if another worker has created it.
create index if not exists {{.SideIndex}} on dibs_adopted (source, lease_until)
where token is not null
