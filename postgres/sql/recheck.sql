-- Purpose: tell which tokens that a finish refused are good after all: the statement had
--   seen a lease end that was just being extended.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id.
-- Concurrency: waits for whoever has locked these rows, and looks at their newest
--   versions. Nobody can extend a lease that has ended by then. Where one snapshot is
--   for the whole transaction, there is nothing newer to see.
with newest as materialized (
    select j.id, j.lease_until
    from unnest($1::bigint[], $2::uuid[]) as l (id, token)
    join dibs.job j on j.id = any (array[l.id]) and j.token = l.token
    where current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
    order by l.id
    for no key update of j
)
select id
from newest
where lease_until > statement_timestamp()
