-- Purpose: have jobs wait again for others: those that were requeued or revived, and those that still wait for such.
-- Parameters: $1 ids of the call; those were requeued that this transaction has written.
-- Columns out: how many jobs settlements look at because of that.
-- Concurrency: after revive.sql, in its transaction, in a newer snapshot, with the lock of turn_settle.sql. A follower that
--   has started or ended stays as it is. Jobs put back wait for those that have not ended, or not as needed; a settlement
--   judges these, so a job ends again if another one is dead, too. They do not wait for jobs that were deleted.
with back as materialized (
    select r.id
    from unnest(('{' || current_setting('dibs_turn.revived', true) || '}')::bigint[]) as r (id)
    union
    select j.id
    from unnest($1::bigint[]) as i (id)
    cross join lateral (
        select r.id, r.flow
        from dibs.job r
        where r.id = i.id and r.xmin = pg_current_xact_id()::xid
        offset 0
    ) j
    where j.flow is not null
), judged as materialized (
    select
        e.child,
        e.parent,
        e.open as was,
        exists (select from dibs.job j where j.id = e.parent offset 0)
            or coalesce((e.need = 'completed' and f.state <> 'completed') or (e.need = 'failed' and f.state = 'completed'), false) as open
    from back b
    cross join lateral (
        select o.child, o.parent, o.need, o.open
        from dibs.edge o
        where o.child = b.id
        offset 0
    ) e
    left join lateral (
        select d.state
        from dibs.finished d
        where d.id = e.parent
        offset 0
    ) f on true
), again as materialized (
    select e.child, i.id as parent
    from (
        select r.id
        from unnest($1::bigint[]) as r (id)
        union
        select r.id
        from unnest(('{' || current_setting('dibs_turn.revived', true) || '}')::bigint[]) as r (id)
    ) i
    cross join lateral (
        select o.child
        from dibs.edge o
        where o.parent = i.id and not o.open
        offset 0
    ) e
    where exists (select from dibs.job j where j.id = i.id offset 0)
        and exists (select from dibs.job j where j.id = e.child and j.gate::int = 5 offset 0)
), changed as (
    update dibs.edge e
    set open = c.open
    from (
        select d.child, d.parent, d.open
        from judged d
        where d.open <> d.was
        union
        select a.child, a.parent, true
        from again a
    ) c
    where e.child = any (array[c.child]) and e.parent = any (array[c.parent])
), blocked as (
    update dibs.job j
    set gate = 5
    where j.id = any (array(select d.child from judged d where d.open)) and j.gate::int <> 5
    returning j.queue, j.group_key
), counted as (
    insert into dibs.tally (queue, waiting, blocked)
    select queue, - count(*), count(*)
    from blocked
    where group_key is null
    group by queue
), waiting as materialized (
    select child as id from again
    union
    select child from judged where open
    union
    select r.id
    from unnest(('{' || current_setting('dibs_turn.revived', true) || '}')::bigint[]) as r (id)
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(w.id)
    from waiting w
    having count(*) > 0
)
select count(*)
from waiting
