-- Purpose: let followers go on that wait for no other job any more.
-- Parameters: none.
-- Columns out: queue; how many of its jobs go on; how many were locked, and are looked at again. One row has no queue.
-- Concurrency: after settle_close.sql, in its transaction, in a newer snapshot: it sees all edges that are closed, and
--   only settlements close any. It waits for no lock: a row that is locked, as by an operator's call, is listed again.
-- run_at is the job's own, or now if that has passed: as in enqueue.sql, "now" comes after the transaction has its
--   number, so that no mark has passed it.
-- The last edge by parent is looked at, not the first: most parents end in the order of their ids, and their
--   edges may leave many dead entries in the index.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
), free as materialized (
    select j.id
    from unnest(('{' || current_setting('dibs_turn.waiting', true) || '}')::bigint[]) as w (id)
    cross join lateral (
        select r.id
        from dibs.job r
        where r.id = w.id and r.gate::int = 5 and r.token is null
        offset 0
    ) j
    where (
        select e.parent
        from dibs.edge e
        where e.child = j.id and e.open::int = 1
        order by e.parent desc
        limit 1
    ) is null
), held as materialized (
    select j.id
    from dibs.job j
    where j.id = any (array(select f.id from free f)) and j.gate::int = 5 and j.token is null
    order by j.id
    for no key update skip locked
), missed as materialized (
    select f.id
    from free f
    where (f.id in (select h.id from held h)) = false
), again as (
    insert into dibs.ended_list (ids)
    select array_agg(m.id)
    from missed m
    having count(*) > 0
), moved as (
    update dibs.job j
    set
        run_at = greatest(j.run_at, (select at from clock)),
        gate = case when j.group_key is null then 0 when j.run_at <= (select at from clock) then 1 else 2 end
    where j.id = any (array(select h.id from held h))
    returning j.queue, j.group_key, j.gate
), woken as (
    insert into dibs.wake_list (queue, groups)
    select queue, array_agg(distinct group_key)
    from moved
    where gate = 1
    group by queue
), counted as (
    insert into dibs.tally (queue, waiting, blocked)
    select queue, count(*), - count(*)
    from moved
    where gate <> 1
    group by queue
)
select queue, count(*), 0
from moved
group by queue
union all
select null, 0, (select count(*) from missed)
