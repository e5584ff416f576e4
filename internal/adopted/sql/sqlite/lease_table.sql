-- Purpose: make the side table.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: whoever comes second finds it made.
create table if not exists {{.Side}} (
    source text not null, -- the adopted table
    key text not null, -- the row's id, as a JSON array
    queue text not null, -- that it was last claimed for
    grp text, -- its group, while it is leased
    token text, -- of the claim that holds it
    worker text,
    claimed_at integer, -- times are in microseconds since 1970
    lease_until integer,
    attempt integer not null,
    excused integer not null, -- attempts that do not count
    run_at integer not null, -- not before
    dead integer not null, -- 1: failed for good
    errors text, -- a JSON array
    primary key (source, key)
) without rowid
