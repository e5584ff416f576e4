-- Purpose: renew leases.
-- Parameters: arrays of equal length: $1 id, $2 token; $3 lease in microseconds.
-- Columns out: id, cancel_requested, of those whose token was good.
-- Concurrency: fenced by token and lease, checked again in the newest version of a
--   row. Changes no indexed column. The caller sorts by id, so that batches lock in
--   one order. A lease never becomes shorter, so the sweep, which still looks at the
--   claim when its first end comes, is never late.
update dibs.job j
set lease_until = greatest(j.lease_until, statement_timestamp() + $3::bigint * interval '1 microsecond')
from unnest($1::bigint[], $2::uuid[]) as l (id, token)
where j.id = l.id and j.token = l.token and j.lease_until > statement_timestamp()
returning j.id, j.cancel_requested
