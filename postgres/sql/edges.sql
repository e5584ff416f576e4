-- Purpose: note which jobs new jobs come after.
-- Parameters: arrays of equal length, one element per edge: $1 child, $2 parent, $3 need; $4 those of the
--   parents that were there before, or null.
-- Columns out: none.
-- Concurrency: in the transaction that inserts the children, which nobody else sees until it ends. It locks nothing.
--   settle_take.sql marks the jobs in $4 as followed, up to 5,000 in a transaction, or finds that they have ended.
with listed as (
    insert into dibs.ended_list (ids)
    select array_agg(l.id)
    from unnest($4::bigint[]) with ordinality as l (id, place)
    group by (l.place - 1) / 5000
)
insert into dibs.edge (child, parent, need, open)
select child, parent, need, true
from unnest($1::bigint[], $2::bigint[], $3::text[]) as e (child, parent, need)
