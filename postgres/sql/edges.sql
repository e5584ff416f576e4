-- Purpose: note which jobs new jobs come after.
-- Parameters: arrays of equal length, one element per edge: $1 child, $2 parent, $3 need; $4 the children that come
--   after jobs that were there before, or null.
-- Columns out: none.
-- Concurrency: in the transaction that inserts the children, which nobody else sees until it ends. It locks nothing.
--   settle_take.sql looks at the children in $4, and marks the jobs that they come after as followed.
with listed as (
    insert into dibs.ended_list (ids)
    select $4::bigint[]
    where cardinality($4::bigint[]) > 0
)
insert into dibs.edge (child, parent, need, open)
select child, parent, need, true
from unnest($1::bigint[], $2::bigint[], $3::text[]) as e (child, parent, need)
