-- Purpose: insert a batch of jobs, some with unique keys; jobs whose key is held are left
--   out.
-- Parameters: as enqueue.sql, then $10 unique key or null, $11 until when it is
--   held ('finished' or 'claimed') or null, $12 the queues' names, $13 the versions of
--   their settings by which the batch was checked, $14 the time to take for now or null, and
--   the wide payloads as in enqueue.sql, from $15 on.
-- Columns out: ord (place in the arrays, from 1), id, holder. For each job its ord and the id meant for
--   it; then for each inserted job its id alone; then for each other one whose key a job held when
--   this statement began, its ord and that holder. No row if a queue's settings have another version.
-- Concurrency: the partial unique index decides. An insert that meets a key whose
--   holder is not committed yet waits for that transaction; keys are inserted in
--   their order, so two batches cannot wait for each other.
with clock as materialized (
    select coalesce($14::timestamptz, clock_timestamp()) as at
    where pg_current_xact_id() is not null
), asked as materialized (
    select
        nextval('dibs.job_id') as id,
        n.queue,
        n.kind,
        n.payload,
        n.metadata,
        n.priority,
        n.run_at,
        n.delay_us,
        n.max_attempts,
        n.group_key,
        n.unique_key,
        n.unique_until,
        n.ord
    from (
        select
            u.queue,
            u.kind,
            u.payload,
            u.metadata,
            u.priority,
            u.run_at,
            u.delay_us,
            u.max_attempts,
            u.group_key,
            u.unique_key,
            u.unique_until,
            u.ord
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[], $7::bigint[], $8::int[], $9::text[], $10::text[], $11::text[])
            with ordinality as u (queue, kind, payload, metadata, priority, run_at, delay_us, max_attempts, group_key, unique_key, unique_until, ord)
        where current_setting('transaction_isolation') <> 'read committed'
            or not exists (
                select
                from unnest($12::text[], $13::bigint[]) as k (name, version)
                where not exists (select from dibs.queue q where q.name = k.name and q.version = k.version offset 0)
            )
        order by ord
    ) n
), added as (
    insert into dibs.job (id, queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, unique_key, unique_until, unique_held, created_at)
    select
        n.id,
        n.queue,
        n.kind,
        n.payload,
        n.metadata,
        n.priority,
        greatest(coalesce(n.run_at, (select at from clock) + (n.delay_us * interval '1 microsecond')), (select at from clock)),
        case
            when n.group_key is null then 0
            when coalesce(n.run_at, (select at from clock) + (n.delay_us * interval '1 microsecond')) <= (select at from clock) then 1
            else 2
        end,
        n.max_attempts,
        n.group_key,
        n.unique_key,
        n.unique_until,
        n.unique_key is not null,
        (select at from clock)
    from asked n
    order by n.queue, n.unique_key, n.ord
    on conflict (queue, unique_key) where unique_held do nothing
    returning id, queue, gate, group_key
),
-- for wide payloads {
wide as (
    insert into dibs.payload (id, payload, metadata)
    select i.ids[w.ord], w.payload, w.metadata
    from (
        select array_agg(id order by ord) as ids
        from asked
    ) i,
        unnest($15::int[], $16::text[], $17::text[]) as w (ord, payload, metadata)
    where (i.ids[w.ord] in (select a.id from added a)) = true
),
-- }
woken as (
    insert into dibs.wake_list (queue, groups)
    select queue, array_agg(group_key)
    from (
        select distinct queue, group_key, id / 500 as part
        from added
        where gate = 1
    ) g
    group by queue, part
), counted as (
    insert into dibs.tally (queue, waiting, blocked, enqueued)
    select
        queue,
        count(*) filter (where gate <> 1),
        nullif(count(*) filter (where gate = 1), 0),
        count(*)
    from added
    group by queue
)
select n.ord, n.id, null::bigint
from asked n
union all
select null, a.id, null
from added a
union all
select n.ord, null, h.id
from asked n
cross join lateral (
    select h.id
    from dibs.job h
    where h.queue = n.queue and h.unique_key = n.unique_key and h.unique_held
    order by h.id desc
    limit 1
) h
where (n.id in (select a.id from added a)) = false
