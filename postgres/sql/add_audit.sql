-- Purpose: note what somebody has changed, and forget all but the newest changes.
-- Parameters: $1 who, $2 what was done, $3 to what, $4 how many were changed, $5 how many changes to keep.
-- Columns out: none.
-- Concurrency: an insert, which waits for nobody. Of rows that two calls delete, one deletes each.
with old as (
    delete from dibs.audit
    where id = any (array(
        select a.id
        from dibs.audit a
        where a.id <= ((select max(m.id) from dibs.audit m) - $5::bigint)
        order by a.id
        limit 1000
        for update skip locked
    ))
)
insert into dibs.audit (who, did, what, n)
values ($1, $2, $3, $4)
