-- Purpose: after a concurrency limit or a rate was set, shut out claims that began without it,
--   and under a limit move the queue's running jobs to gate 3, where claims count them.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: in the turn of turn_claim.sql, when no claim without the limit has locked
--   the turn's row any more. One may still be about to, in a snapshot without the limit.
--   So this puts another row in its place, which that snapshot does not have: a lock for
--   key share alone would not show that claim that the row has changed.
--   Rows that are just being finished are skipped; while there are any, the queue is not
--   marked as counted, and claims count in a slower way.
-- If the settings change meanwhile, the update finds another version and does nothing.
with open as materialized (
    select name, version, counted, concurrency
    from dibs.queue
    where name = $1 and current_setting('dibs_turn.claim', true) = 'true'
), old as (
    delete from dibs.turn t
    using open o
    where t.queue = any (array[o.name]) and o.counted is null
    returning t.queue
), new as (
    insert into dibs.turn (queue)
    select queue
    from old
), found as materialized (
    select j.id
    from open o, dibs.claim c, unnest(c.ids) as i (id), dibs.job j
    where o.concurrency > 0 and c.queue = $1 and j.id = any (array[i.id]) and j.token = c.token and j.gate::int = 0
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
update dibs.queue q
set counted = (select count(*) from found) = (select count(*) from free)
from open o
where q.name = any (array[o.name]) and q.version = o.version
