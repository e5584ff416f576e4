-- Purpose: insert a batch of jobs without unique keys.
-- Parameters: arrays of equal length, one element per job: $1 queue, $2 kind,
--   $3 payload, $4 metadata or null, $5 priority, $6 run_at or null, $7 delay in
--   microseconds, $8 max_attempts, $9 group or null; then $10 the queues'
--   names and $11 the versions of their settings by which the batch was checked. For wide
--   payloads $3 and $4 have nulls; of equal length are then $12 place in the arrays, from
--   1, $13 payload and $14 metadata or null.
-- Columns out: id, in the order of the arrays; no row if a queue's settings have
--   another version.
-- Concurrency: takes no lock that another enqueuer or a claimer needs: counts and
--   wake rows are appended, never updated. Ids are drawn after the sort, so they
--   grow with the arrays.
-- No job may be due before its transaction has got its number: marks pass the times up to
--   which all numbered transactions have ended (marks.go). So "clock" reads the clock after
--   that, here and in all statements that give a job a new time.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
), added as (
    insert into dibs.job (queue, kind, payload, metadata, priority, run_at, gate, max_attempts, group_key, created_at)
    select
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
        (select at from clock)
    from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[], $7::bigint[], $8::int[], $9::text[])
        with ordinality as n (queue, kind, payload, metadata, priority, run_at, delay_us, max_attempts, group_key, ord)
    where current_setting('transaction_isolation') <> 'read committed'
        or not exists (
            select
            from unnest($10::text[], $11::bigint[]) as k (name, version)
            where not exists (select from dibs.queue q where q.name = k.name and q.version = k.version offset 0)
        )
    order by n.ord
    returning id, queue, gate, group_key
),
-- for wide payloads {
wide as (
    insert into dibs.payload (id, payload, metadata)
    select i.ids[w.ord], w.payload, w.metadata
    from (
        select array_agg(id order by id) as ids
        from added
    ) i,
        unnest($12::int[], $13::text[], $14::text[]) as w (ord, payload, metadata)
    where i.ids is not null
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
select id
from added
