-- Purpose: tell which tokens are still good.
-- Parameters: arrays of equal length: $1 id, $2 token.
-- Columns out: id, cancel_requested.
-- Concurrency: a plain read; locks nothing and waits for nobody.
select j.id, j.cancel_requested
from unnest($1::bigint[], $2::uuid[]) as l (id, token)
join dibs.job j on j.id = any (array[l.id]) and j.token = l.token and j.lease_until > statement_timestamp()
