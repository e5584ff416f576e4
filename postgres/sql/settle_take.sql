-- Purpose: begin to settle: read which jobs have ended, and look at live ones that were listed: they have got followers, or
--   wait themselves.
-- Parameters: $1 how many jobs, about.
-- Columns out: 'true' if the transaction has the turn; how many rows it has taken; whether the list has rows; how
--   many jobs it has found locked, and lists again. The settings dibs_turn.rows,
--   dibs_turn.ended and dibs_turn.waiting list, until the transaction ends, the rows, the jobs
--   that have ended, and the followers.
-- Concurrency: in the turn of turn_sweep.sql, in a newer snapshot, so it sees all that the last settlement has
--   done. It waits for no lock. A parent that was not followed when its follower came is marked:
--   a finish that began earlier reads the newest version of the row, and lists the job. If the row is locked,
--   the parent may be ending without being listed: it is looked at again. A parent that has ended
--   meanwhile is seen as such here, or by that next look.
-- Edges of jobs that have left no row go here.
with taken as materialized (
    select t.id, t.ids
    from (
        select f.id, f.ids, sum(cardinality(f.ids)) over (order by f.id) - cardinality(f.ids) as jobs_before
        from (
            select id, ids
            from dibs.ended_list
            order by id
            limit $1
        ) f
    ) t
    where current_setting('dibs_turn.sweep', true) = 'true' and t.jobs_before < $1
), named as materialized (
    select distinct i.id
    from taken t, unnest(t.ids) as i (id)
), live as materialized (
    select n.id, j.gate, j.followed
    from named n
    cross join lateral (
        select r.gate, r.followed
        from dibs.job r
        where r.id = n.id
        offset 0
    ) j
), asked as materialized (
    select l.id as child, e.parent, p.followed
    from live l
    cross join lateral (
        select o.parent
        from dibs.edge o
        where o.child = l.id and o.open::int = 1
        offset 0
    ) e
    left join lateral (
        select r.followed
        from dibs.job r
        where r.id = e.parent
        offset 0
    ) p on true
    where l.gate = 5
), unknown as materialized (
    select l.id
    from live l
    where not l.followed and exists (select from dibs.edge e where e.parent = l.id and e.open offset 0)
    union
    select a.parent
    from asked a
    where not a.followed
), locked as materialized (
    select j.id
    from dibs.job j
    where j.id = any (array(select u.id from unknown u))
    order by j.id
    for no key update skip locked
), marked as (
    update dibs.job
    set followed = true
    where id = any (array(select l.id from locked l))
), ended as materialized (
    select n.id
    from named n
    where (n.id in (select l.id from live l)) = false
    union
    select a.parent
    from asked a
    where a.followed is null
), marked_ended as (
    update dibs.finished
    set followed = true
    where id = any (array(
        select f.id
        from dibs.finished f
        where f.id = any (array(select e.id from ended e)) and not f.followed
            and exists (select from dibs.edge e where e.parent = f.id and e.open offset 0)
        order by f.id
        for no key update skip locked
    ))
), again as (
    insert into dibs.ended_list (ids)
    select array_agg(u.id)
    from unknown u
    where (u.id in (select l.id from locked l)) = false
    having count(*) > 0
    returning ids
), cut as (
    delete from dibs.edge
    where child = any (array(
        select n.id
        from named n
        where (n.id in (select l.id from live l)) = false
            and not exists (select from dibs.finished f where f.id = n.id offset 0)
    ))
)
select
    current_setting('dibs_turn.sweep', true),
    (select count(*) from taken),
    exists (select from dibs.ended_list),
    coalesce((select cardinality(ids) from again), 0),
    set_config('dibs_turn.rows', coalesce((select string_agg(t.id::text, ',') from taken t), ''), true),
    set_config('dibs_turn.ended', coalesce((select string_agg(e.id::text, ',') from ended e), ''), true),
    set_config('dibs_turn.waiting', coalesce((select string_agg(l.id::text, ',') from live l where l.gate = 5), ''), true)
