-- Purpose: cancel the followers that can never start.
-- Parameters: none.
-- Columns out: ids, as text; how many edges of locked ones are open again, and looked at again.
-- Concurrency: after settle_close.sql, in its transaction. It waits for no lock: where a row is locked, as by an
--   operator's call, the edges are opened again and the follower listed.
with unmet as materialized (
    select u.child, u.parent, u.cause
    from unnest(
        ('{' || current_setting('dibs_turn.unmet', true) || '}')::bigint[],
        ('{' || current_setting('dibs_turn.unmet_parents', true) || '}')::bigint[],
        ('{' || current_setting('dibs_turn.unmet_causes', true) || '}')::bigint[]
    ) as u (child, parent, cause)
), held as materialized (
    select j.id
    from dibs.job j
    where j.id = any (array(select u.child from unmet u)) and j.gate::int = 5 and j.token is null
    order by j.id
    for no key update skip locked
), missed as materialized (
    select u.child, u.parent
    from unmet u
    where (u.child in (select h.id from held h)) = false
        and exists (select from dibs.job j where j.id = u.child and j.gate::int = 5 offset 0)
), opened as (
    update dibs.edge e
    set open = true
    from missed m
    where e.child = any (array[m.child]) and e.parent = any (array[m.parent])
), again as (
    insert into dibs.ended_list (ids)
    select array_agg(distinct m.child)
    from missed m
    having count(*) > 0
), first_unmet as materialized (
    select distinct on (u.child) u.child, u.cause
    from unmet u
    order by u.child, u.parent
), gone as (
    delete from dibs.job j
    using first_unmet u
    where j.id = any (array[u.child]) and (u.child in (select h.id from held h)) = true
    returning j.*, u.cause
), kept as (
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors, flow, cause, followed)
    select
        g.id,
        'cancelled',
        statement_timestamp(),
        g.run_at,
        g.created_at,
        g.claimed_at,
        g.attempt,
        g.excused,
        g.max_attempts,
        g.priority,
        g.cancel_requested,
        g.queue,
        g.kind,
        g.group_key,
        g.unique_key,
        g.unique_until,
        g.worker,
        g.payload,
        g.metadata,
        g.errors,
        g.flow,
        g.cause,
        g.followed
    from gone g
    left join dibs.queue q on q.name = g.queue
    where g.followed or coalesce(q.keep_cancelled > interval '0', true)
    returning id, queue
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and (g.id in (select k.id from kept k)) = false and p.id = any (array[g.id])
), stepless as (
    delete from dibs.step s
    using gone g
    where g.stepped and (g.id in (select k.id from kept k)) = false and s.job = any (array[g.id])
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(g.id)
    from gone g
    where g.followed or (g.id in (select k.id from kept k)) = false
    having count(*) > 0
), counted as (
    insert into dibs.tally (queue, blocked, cancelled)
    select
        g.queue,
        - count(*),
        nullif((select count(*) from kept k where k.queue = g.queue), 0)
    from gone g
    group by g.queue
)
select
    coalesce((select array_agg(g.id order by g.id) from gone g), '{}')::text,
    (select count(*) from missed)
