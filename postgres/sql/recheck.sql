-- Purpose: find the tokens that a finish refused although they are good: it had seen the
--   old end of a lease that was just being extended.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id.
-- Concurrency: waits for the transactions that have locked these rows, and looks at the
--   newest versions. A lease that has ended by then cannot be extended any more. In a
--   transaction with one snapshot there are no newer versions to see.
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
