-- Purpose: make the side table.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: whoever comes second finds it made.
create table if not exists {{.Side}} (
    source pg_catalog.text not null, -- the adopted table
    key pg_catalog.text not null, -- the row's id, as a JSON array
    queue pg_catalog.text not null, -- that it was last claimed for
    grp pg_catalog.text, -- its group, while it is leased
    token pg_catalog.text, -- of the claim that holds it
    worker pg_catalog.text,
    claimed_at bigint, -- times are in microseconds since 1970
    lease_until bigint,
    attempt int not null,
    excused int not null, -- attempts that do not count
    run_at bigint not null, -- not before
    dead int not null, -- 1: failed for good
    errors pg_catalog.text, -- a JSON array
    primary key (source, key)
)
