-- Purpose: create the side table.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: changes nothing if another worker has created it.
create table if not exists {{.Side}} (
    source text not null, -- the adopted table
    key text not null, -- the row's id, as a JSON array
    queue text not null, -- the queue that last claimed the row
    grp text, -- the row's group while the lease lasts
    token text, -- token of the claim that holds the lease
    worker text,
    claimed_at integer, -- times are in microseconds since 1970
    lease_until integer,
    attempt integer not null,
    excused integer not null, -- attempts that do not count
    run_at integer not null, -- earliest next start
    dead integer not null, -- 1: failed for good
    errors text, -- a JSON array
    primary key (source, key)
) without rowid
