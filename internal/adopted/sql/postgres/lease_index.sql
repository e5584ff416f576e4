-- Purpose: find leases that are over.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: whoever comes second finds it made.
create index if not exists dibs_adopted_lease on {{.Side}} (source, lease_until)
where token is not null
