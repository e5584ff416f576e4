-- Purpose: delete finished jobs when an operator asks for it.
-- Parameters: $1 queue or '' for all, $2 state or '' for all, $3 age in
--   microseconds, $4 how many at most per queue and state.
-- Columns out: deleted.
-- Concurrency: rows that are just being requeued or pruned are skipped.
with gone as (
    delete from dibs.finished
    where ctid = any (array(
        select f.ctid
        from dibs.queue q,
            unnest(array['completed', 'dead', 'cancelled']) as s (state),
            lateral (
                select o.ctid
                from dibs.finished o
                where o.queue = q.name and o.state = s.state
                    and o.finished_at <= (statement_timestamp() - ($3::bigint * interval '1 microsecond'))
                order by o.finished_at, o.id
                limit $4
                for update skip locked
            ) f
        where ($1 = '' or $1 = q.name) and ($2 = '' or $2 = s.state)
    ))
    returning queue, state, id, payload
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and p.id = any (array[g.id])
), counted as (
    insert into dibs.tally (queue, completed, dead, cancelled)
    select
        queue,
        - nullif(count(*) filter (where state = 'completed'), 0),
        - nullif(count(*) filter (where state = 'dead'), 0),
        - nullif(count(*) filter (where state = 'cancelled'), 0)
    from gone
    group by queue
)
select count(*)
from gone
