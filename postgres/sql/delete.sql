-- Purpose: delete some dead jobs.
-- Parameters: $1 ids; $2 only those that died then or before.
-- Columns out: id, queue.
-- Concurrency: rows that are just being requeued or deleted are skipped. The others are locked in
--   the order of their ids.
with gone as (
    delete from dibs.finished
    where id = any (array(
        select o.id
        from dibs.finished o
        where o.id = any ($1::bigint[]) and case when o.state = 'dead' then o.finished_at <= $2 end
        order by o.id
        for update skip locked
    ))
    returning queue, id, payload
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and p.id = any (array[g.id])
), counted as (
    insert into dibs.tally (queue, dead)
    select queue, - count(*)
    from gone
    group by queue
)
select id, queue
from gone
