-- Purpose: create the side table.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: changes nothing if another worker has created it.
create table if not exists {{.Side}} (
    source pg_catalog.text not null, -- the adopted table
    key pg_catalog.text not null, -- the row's id, as a JSON array
    queue pg_catalog.text not null, -- the queue that last claimed the row
    grp pg_catalog.text, -- the row's group while the lease lasts
    token pg_catalog.text, -- token of the claim that holds the lease
    worker pg_catalog.text,
    claimed_at bigint, -- times are in microseconds since 1970
    lease_until bigint,
    attempt int not null,
    excused int not null, -- attempts that do not count
    run_at bigint not null, -- earliest next start
    dead int not null, -- 1: failed for good
    errors pg_catalog.text, -- a JSON array
    primary key (source, key)
)
