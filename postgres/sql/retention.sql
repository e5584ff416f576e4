-- Purpose: delete finished jobs that their queue no longer keeps.
-- Parameters: $1 how many at most per queue and state.
-- Columns out: deleted.
-- Concurrency: in the turn of turn_sweep.sql. Rows that somebody is just putting back
--   are skipped. Reads only what is past retention: the index is by time.
with gone as (
    delete from dibs.finished
    where current_setting('dibs_turn.sweep', true) = 'true'
        and ctid = any (array(
            select f.ctid
            from dibs.queue q,
                lateral (values ('completed', q.keep_completed), ('dead', q.keep_dead), ('cancelled', q.keep_cancelled)) as s (state, keep),
                lateral (
                    select o.ctid
                    from dibs.finished o
                    where o.queue = q.name and o.state = s.state and o.finished_at < (statement_timestamp() - s.keep)
                    order by o.finished_at, o.id
                    limit $1
                    for update skip locked
                ) f
        ))
    returning queue, state
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
