-- Purpose: after a concurrency limit was set, move the queue's running jobs to
--   gate 3, where claims count them.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: in the turn of turn_claim.sql, when no claim without the limit is under
--   way any more. Rows that are just being finished are skipped; while there are any, the
--   queue is not marked, and claims count in a slower way.
with found as materialized (
    select j.id
    from dibs.claim c, unnest(c.ids) as i (id), dibs.job j
    where current_setting('dibs_turn.claim', true) = 'true'
        and c.queue = $1 and j.id = any (array[i.id]) and j.token = c.token and j.gate::int = 0
), free as materialized (
    select j.id
    from dibs.job j
    where j.id = any (array(select id from found))
    order by j.id
    for no key update skip locked
), moved as (
    update dibs.job j
    set gate = 3
    from free f
    where j.id = any (array[f.id]) and j.token is not null and j.gate::int = 0
)
update dibs.queue
set counted = true
where name = $1 and current_setting('dibs_turn.claim', true) = 'true'
    and (select count(*) from found) = (select count(*) from free)
