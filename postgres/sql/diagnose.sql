-- Purpose: find jobs, leases, schedules and upkeep that somebody should look at.
-- Parameters: none.
-- Columns out: name of the finding; queue, schedule or what upkeep is late; id of a job; two
--   counts; age in microseconds; detail. The names:
--   dead: jobs that died in the last hour, by queue and last error: the newest, how many, of up to how
--     many that were read of the queue
--   leases: a running or returned job whose leases have ended again and again: how often
--   cancel: a running job that somebody has cancelled, and since when it runs
--   late: upkeep that workers should have done
--   schedule: a schedule whose tick is over a minute late
--   awaited: jobs of a queue and a kind (detail) that others come after, and that no worker has: the first
--     of these others, how many they are, and the same again if there may be more
--   kept: ended jobs of a queue that should have been deleted for 10 minutes or more, and are kept for those
--     that come after them: the newest, how many, of up to how many that were read of each state
-- Concurrency: one snapshot; locks nothing. Reads at most 1,000 dead jobs of a queue, where many queues
--   have some fewer of each, 10,000 in all, 1,000 claims and their jobs, 200 returned jobs of a queue and 2,000 in all, 100,000
--   rows of the tally and 10,000 of each of the tables wake and wake_list, 200 followers of a queue and 1,000 in all with
--   up to 3 jobs that each waits for, 100 ended jobs of a queue and state that are past retention and about 3,000 in
--   all, with up to 20 followers of each, 100 rows of ended_list with up to 10 jobs of each, and one entry of an
--   index for each queue and state.
-- Of a job's followers it reads those that wait, then those that came last: they are the last to end.
with share as materialized (
    select greatest(1, least(1000, 10000 / greatest(1, count(*)))) as n
    from dibs.queue q
    where exists (
        select
        from dibs.finished d
        where d.queue = q.name and d.state = 'dead' and d.finished_at > (statement_timestamp() - interval '1 hour')
    )
), ended as materialized (
    select f.id, f.queue, f.finished_at, left(coalesce(jsonb_path_query_first(f.errors, '$[last].error', '{}', true) #>> '{}', ''), 300) as error
    from dibs.queue q
    cross join lateral (
        select d.id, d.queue, d.finished_at, d.errors
        from dibs.finished d
        where d.queue = q.name and d.state = 'dead' and d.finished_at > (statement_timestamp() - interval '1 hour')
        order by d.finished_at desc
        limit (select n from share)
    ) f
), held as materialized (
    select i.id, c.token
    from (
        select token, ids
        from dibs.claim
        order by check_at
        limit 1000
    ) c, unnest(c.ids) as i (id)
    limit 1000
), running as materialized (
    select j.id, j.queue, j.worker, j.errors, j.cancel_requested, j.claimed_at
    from held h
    cross join lateral (
        select r.id, r.queue, r.worker, r.errors, r.cancel_requested, r.claimed_at, r.token
        from dibs.job r
        where r.id = any (array[h.id])
        offset 0
    ) j
    where j.token = h.token
), returned as materialized (
    select b.id, b.queue, b.worker, b.errors
    from dibs.queue q
    cross join lateral (
        select j.id, j.queue, j.worker, j.errors
        from dibs.job j
        where j.queue = q.name and j.returned
        order by j.queue, j.priority, j.run_at, j.id
        limit 200
    ) b
    limit 2000
), leases as (
    select l.id, l.queue, l.worker, jsonb_array_length(jsonb_path_query_array(l.errors, '$[*] ? (@.error == "lease expired")', '{}', true)) as n
    from (
        select id, queue, worker, errors from running
        union
        select id, queue, worker, errors from returned
    ) l
), following as materialized (
    select greatest(1, least(200, 1000 / greatest(1, count(*)))) as n
    from dibs.queue q
    where exists (select from dibs.job j where j.queue = q.name and j.gate = 5 offset 0)
), follower as materialized (
    select f.id, q.name as queue
    from dibs.queue q
    cross join lateral (
        select j.id
        from dibs.job j
        where j.queue = q.name and j.gate = 5
        limit (select n from following)
    ) f
    limit 1000
), awaited as (
    select p.queue, p.kind, min(f.id) as first, count(distinct f.id) as n
    from follower f
    cross join lateral (
        select e.parent
        from dibs.edge e
        where e.child = f.id and e.open::int = 1
        order by e.parent
        limit 3
    ) w
    cross join lateral (
        select j.queue, j.kind
        from dibs.job j
        where j.id = w.parent and j.token is null
        offset 0
    ) p
    group by p.queue, p.kind
), keeping as materialized (
    select greatest(1, least(100, 1000 / greatest(1, count(*)))) as n
    from dibs.queue
), past as materialized (
    select o.id, q.name as queue, o.followed, o.finished_at + s.keep as since
    from dibs.queue q
    cross join lateral (values ('completed', q.keep_completed), ('dead', q.keep_dead), ('cancelled', q.keep_cancelled)) as s (state, keep)
    cross join lateral (
        select f.id, f.finished_at, f.followed
        from dibs.finished f
        where f.queue = q.name and f.state = s.state and f.finished_at < (statement_timestamp() - (s.keep + interval '10 minutes'))
        order by f.finished_at, f.id
        limit (select n from keeping)
    ) o
), kept as (
    select p.id, p.queue, p.since
    from past p
    where p.followed and exists (
        select
        from (
            select e.child
            from dibs.edge e
            where e.parent = p.id
            order by e.open desc, e.child desc
            limit 20
        ) e
        cross join lateral (
            select
            from dibs.job j
            where j.id = e.child
            offset 0
        ) j
        offset 0
    )
), late as (
    select 'claims' as what, count(*) as n, min(check_at) as since
    from (
        select token, ids, check_at
        from dibs.claim
        where check_at < (statement_timestamp() - interval '30 seconds')
        order by check_at
        limit 100
    ) c
    where exists (
        select
        from unnest(c.ids) as i (id)
        cross join lateral (
            select
            from dibs.job r
            where r.id = any (array[i.id]) and r.token = c.token
            offset 0
        ) j
    )
    union all
    select 'wake', count(*), null
    from (select from dibs.wake limit 10000) w
    having count(*) = 10000
    union all
    select 'wake', count(*), null
    from (select from dibs.wake_list limit 10000) w
    having count(*) = 10000
    union all
    select 'tally', count(*), null
    from (select from dibs.tally limit 100000) t
    having count(*) = 100000
    union all
    select 'periods', 0, min(until) + interval '10 minutes'
    from dibs.unique_window
    union all
    select 'history', count(*), min(since)
    from past
    where not followed
    union all
    select 'flows', count(*), min(l.at)
    from (
        select max(f.finished_at) as at
        from (
            select id, ids
            from dibs.ended_list
            order by id
            limit 100
        ) r
        cross join unnest(r.ids[1:10]) as i (id)
        cross join lateral (
            select e.finished_at
            from dibs.finished e
            where e.id = i.id
            offset 0
        ) f
        group by r.id
    ) l
    where l.at < (statement_timestamp() - interval '1 minute')
)
select 'dead', queue, max(id), count(*), (select n from share), date_part('epoch', statement_timestamp() - max(finished_at)) * 1000000, error
from ended
group by queue, error
union all
select 'leases', queue, id, n, 0, 0, coalesce(worker, '')
from leases
where n >= 3
union all
select 'cancel', queue, id, 0, 0, date_part('epoch', statement_timestamp() - claimed_at) * 1000000, coalesce(worker, '')
from running
where cancel_requested and claimed_at < (statement_timestamp() - interval '1 minute') and isfinite(claimed_at)
union all
select 'late', what, 0, n, 0, coalesce(date_part('epoch', statement_timestamp() - since) * 1000000, 0), ''
from late
where n > 0 and since is null or since < statement_timestamp() and isfinite(since)
union all
select 'schedule', name, 0, 0, 0, date_part('epoch', statement_timestamp() - next_at) * 1000000, ''
from dibs.schedule
where next_at < (statement_timestamp() - interval '1 minute')
union all
select 'awaited', queue, first, n, case when (select max(c.n) from (select count(*) as n from follower group by queue) c) >= (select n from following) then n else 0 end, 0, kind
from awaited
union all
select 'kept', queue, max(id), count(*), (select n from keeping), date_part('epoch', statement_timestamp() - min(since)) * 1000000, ''
from kept
where isfinite(since)
group by queue
