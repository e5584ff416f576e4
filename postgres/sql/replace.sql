-- Purpose: change waiting jobs for new jobs that were enqueued with their unique keys (IfHeld).
-- Parameters: arrays of equal length: $1 id; $2 whether the job becomes the new one, or only
--   its run_at moves; of the new one $3 kind, $4 payload, $5 metadata or null, $6 priority,
--   $7 max_attempts, $8 group or null; $9 run_at, null: it stays; then $10 the time to take for now. For wide
--   payloads $4 and $5 have nulls; of equal length are then $11 place in the arrays, from 1,
--   $12 payload and $13 metadata or null.
-- Columns out: none.
-- Concurrency: lock_holders.sql has locked the jobs in this transaction. A claim whose
--   snapshot is older skips the new row, so none sees a new row with an old payload.
-- A job that waits for others goes on to do so. A grouped job gives up its place and competes for it again, unless it has been started in a
--   strict queue. A job that becomes a new one has all of its attempts again, and no steps.
with meant as materialized (
    select
        j.id,
        j.gate as old_gate,
        j.group_key as old_group,
        n.whole,
        n.kind,
        n.payload,
        n.metadata,
        n.priority,
        n.max_attempts,
        g.group_key,
        j.gate = 0 and q.strict and j.attempt > 0 and g.group_key = j.group_key as keeps,
        n.run_at is null as stays,
        case when n.run_at is null then j.run_at else greatest(n.run_at, $10::timestamptz) end as run_at
    from unnest($1::bigint[], $2::bool[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::int[], $8::text[], $9::timestamptz[])
        as n (id, whole, kind, payload, metadata, priority, max_attempts, group_key, run_at)
    join dibs.job j on j.id = any (array[n.id])
    join dibs.queue q on q.name = j.queue
    cross join lateral (
        select case when n.whole then n.group_key else j.group_key end as group_key
    ) g
), changed as (
    update dibs.job j
    set
        kind = case when m.whole then m.kind else j.kind end,
        payload = case when m.whole then m.payload else j.payload end,
        metadata = case when m.whole then m.metadata else j.metadata end,
        priority = case when m.whole then m.priority else j.priority end,
        max_attempts = case when m.whole then m.max_attempts else j.max_attempts end,
        excused = case when m.whole then j.attempt else j.excused end,
        stepped = case when m.whole then null else j.stepped end,
        group_key = m.group_key,
        run_at = m.run_at,
        gate = case when m.old_gate = 5 then 5 when m.group_key is null or m.keeps then 0 when m.run_at <= $10::timestamptz then 1 else 2 end,
        returned = j.returned or m.stays
    from meant m
    where j.id = any (array[m.id]) and j.token is null
    returning j.id, j.queue, j.group_key, j.gate, j.payload is null as wide, m.whole, m.old_gate, m.old_group
), stepless as (
    delete from dibs.step s
    using changed c
    where c.whole and s.job = any (array[c.id])
), narrow as (
    delete from dibs.payload p
    using changed c
    where c.whole and not c.wide and p.id = any (array[c.id])
),
-- for wide payloads {
wide as (
    insert into dibs.payload (id, payload, metadata)
    select ($1::bigint[])[w.ord], w.payload, w.metadata
    from unnest($11::int[], $12::text[], $13::text[]) as w (ord, payload, metadata)
    where ($2::bool[])[w.ord]
    on conflict (id) do update
    set
        payload = excluded.payload,
        metadata = excluded.metadata
),
-- }
woken as (
    insert into dibs.wake (queue, group_key)
    select distinct c.queue, g.group_key
    from changed c
    cross join lateral unnest(array[c.group_key, c.old_group]) as g (group_key)
    where g.group_key is not null
)
insert into dibs.tally (queue, waiting, blocked)
select c.queue, - c.n, c.n
from (
    select queue, count(*) filter (where gate in (1, 5)) - count(*) filter (where old_gate in (1, 5)) as n
    from changed
    group by queue
) c
where c.n <> 0
