-- Purpose: give the places of the groups named in wake and wake_list to the first jobs
--   of each.
-- Parameters: $1 queue.
-- Columns out: none.
-- Concurrency: in the turn of turn_admit.sql, so no other process gives places of this
--   queue. A row in gate 0 or 3 holds a place, running or not. Rows are counted in a
--   snapshot taken in the turn; since then places can only have become free (and have
--   left a wake row that stays), so a limit is never exceeded.
-- An unclaimed row that holds a place competes with the blocked rows if a better job, a
--   lower limit or its own run_at can displace it. It is locked first; if that fails, a
--   claim is just taking it, and it keeps its place. Other rows are not locked: a lock
--   would stay even on a row that turns out to be claimed, and delay its finish. Claims
--   pass over competing rows, except claims that began before the reason for it: see
--   claim.sql.
-- In a strict queue a job that has been started comes first, due or not; in others a job
--   that is not due gives its place up. Rows are then changed by id, which finds the locked
--   version even if it is newer than the snapshot. If a row that matters was locked, its
--   group is named in wake again. "gate::int" keeps the planner from finding those ids
--   by an index of all blocked rows, or of all that hold a place.
-- From wake_list it takes rows until they name 500 groups: claims after it wait for it.
with woken as (
    delete from dibs.wake
    where current_setting('dibs_turn.admit', true) = 'true'
        and ctid = any (array(
            select ctid
            from dibs.wake
            where queue = $1
            limit 1000
        ))
    returning group_key
), listed as (
    delete from dibs.wake_list
    where current_setting('dibs_turn.admit', true) = 'true'
        and ctid = any (array(
            select l.ctid
            from (
                select ctid, sum(cardinality(groups)) over (order by id) - cardinality(groups) as before
                from dibs.wake_list
                where queue = $1
                order by id
                limit 1000
            ) l
            where l.before < 500
        ))
    returning groups
), named as materialized (
    select
        w.group_key,
        q.strict,
        u.n < coalesce(cardinality(c.ids), 0) as busy,
        u.ids,
        greatest(coalesce(l.places, q.group_limit) - h.held + u.n, 0) as free
    from (
        select group_key from woken
        union
        select unnest(groups) from listed
    ) w
    join dibs.queue q on q.name = $1
    left join dibs.group_limit l on l.queue = $1 and l.group_key = w.group_key,
        lateral (
            select count(*) as held, count(*) filter (where j.token is null) as idle
            from dibs.job j
            where j.queue = $1 and j.group_key = w.group_key and j.gate in (0, 3) and j.group_key is not null
        ) h,
        lateral (
            select array_agg(j.id) as ids
            from dibs.job j
            where h.idle > 0
                and j.queue = $1 and j.group_key = w.group_key and j.gate in (0, 3) and j.group_key is not null
                and j.token is null
                and (h.held > coalesce(l.places, q.group_limit) or j.run_at > statement_timestamp() or exists (
                    select
                    from dibs.job b
                    where b.queue = $1 and b.gate = 1 and b.group_key = w.group_key
                        and (b.priority, b.run_at, b.id) < (j.priority, j.run_at, j.id)
                    offset 0
                ))
        ) c,
        lateral (
            select count(*) as n, array_agg(x.id) as ids
            from (
                select j.id
                from dibs.job j
                where j.id = any (c.ids) and j.gate::int in (0, 3) and j.token is null
                for no key update skip locked
            ) x
        ) u
), ranked as materialized (
    select
        n.group_key,
        c.id,
        c.blocked,
        c.stays and row_number() over (partition by n.group_key order by c.stays desc, c.started desc, c.priority, c.run_at, c.id) <= n.free as wanted
    from named n,
        lateral (
            select
                j.id,
                false as blocked,
                j.priority,
                j.run_at,
                n.strict and j.attempt > 0 as started,
                n.strict or j.run_at <= statement_timestamp() as stays
            from dibs.job j
            where j.id = any (n.ids)
            union all
            select b.id, true, b.priority, b.run_at, false, true
            from (
                select j.id, j.priority, j.run_at
                from dibs.job j
                where j.queue = $1 and j.group_key = n.group_key and j.gate = 1
                order by j.priority, j.run_at, j.id
                limit n.free
                for no key update skip locked
            ) b
        ) c
), moved as (
    update dibs.job
    set gate = case when gate = 1 then 0 when run_at <= statement_timestamp() then 1 else 2 end
    where id = any (array(select id from ranked where blocked = wanted)) and gate::int in (0, 1, 3) and token is null
    returning gate
), again as (
    insert into dibs.wake (queue, group_key)
    select $1, g.group_key
    from (
        select group_key, sum(free) as free, sum(taken) as taken, bool_or(busy) as busy
        from (
            select group_key, free, 0 as taken, busy
            from named
            union all
            select group_key, -1, blocked::int, false
            from ranked
            where wanted
        ) x
        group by group_key
    ) g
    where g.busy
        or g.free > 0 and (
            select count(*)
            from (
                select 1
                from dibs.job j
                where j.queue = $1 and j.group_key = g.group_key and j.gate = 1
                limit g.taken + 1
            ) b
        ) > g.taken
)
insert into dibs.tally (queue, waiting, blocked)
select $1, c.n, - c.n
from (
    select count(*) filter (where gate = 0) - count(*) filter (where gate = 1) as n
    from moved
) c
where c.n <> 0
