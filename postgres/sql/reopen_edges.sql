-- Purpose: open the edges again over which followers wait for jobs that were requeued or revived.
-- Parameters: $1 ids of the jobs requeued.
-- Columns out: how many followers settlements look at because of that.
-- Concurrency: after revive.sql, in its transaction, in a newer snapshot, with the lock of turn_settle.sql. A follower that
--   has started or ended stays as it is. Of those revived, edges from jobs that have ended as needed stay closed; a
--   settlement judges those that are open, so a job ends again if another parent is dead, too.
with revived as materialized (
    select r.id
    from unnest(('{' || current_setting('dibs_turn.revived', true) || '}')::bigint[]) as r (id)
), again as materialized (
    select e.child, e.parent
    from revived r
    cross join lateral (
        select o.child, o.parent, o.need
        from dibs.edge o
        where o.child = r.id and not o.open
        offset 0
    ) e
    left join lateral (
        select d.state
        from dibs.finished d
        where d.id = e.parent
        offset 0
    ) f on true
    where exists (select from dibs.job j where j.id = e.parent offset 0)
        or (e.need = 'completed' and f.state <> 'completed')
        or (e.need = 'failed' and f.state = 'completed')
    union
    select e.child, i.id
    from unnest($1::bigint[]) as i (id)
    cross join lateral (
        select o.child
        from dibs.edge o
        where o.parent = i.id and not o.open
        offset 0
    ) e
    where exists (select from dibs.job j where j.id = i.id offset 0)
        and exists (select from dibs.job j where j.id = e.child and j.gate::int = 5 offset 0)
), opened as (
    update dibs.edge e
    set open = true
    from again a
    where e.child = any (array[a.child]) and e.parent = any (array[a.parent])
), waiting as materialized (
    select child as id from again
    union
    select id from revived
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(w.id)
    from waiting w
    having count(*) > 0
)
select count(*)
from waiting
