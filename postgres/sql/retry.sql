-- Purpose: give jobs back: retry, snooze, release. Jobs without attempts left die
--   instead, and those that somebody asked to cancel are cancelled.
-- Parameters: arrays of equal length: $1 id, $2 token, $3 ending, $4 error or null,
--   $5 delay in microseconds, null for the queue's backoff (queue.go gives the formula);
--   $6 tokens of claims that this transaction has made, or null (complete.sql).
-- Columns out: queue, whether it has a group, id as text, and whether others come after its end
--   (complete.sql), of each job whose token was good.
-- Concurrency: the rows are locked first, in id order, and seen in their newest
--   version; jobs that are not returned were refused and are unchanged.
-- Counts and times that SQL by hand has put out of all bounds must not fail the jobs beside them.
-- A grouped job gives up its place after a retry or snooze, unless the queue is strict: it
--   goes to gate 2 (or 1, if due at once). Other jobs go to gate 0. The wake row has the
--   group's places given anew in any case.
with clock as materialized (
    select clock_timestamp() as at
    where pg_current_xact_id() is not null
), o as materialized (
    select o.id, o.token, o.ending, o.error, o.delay_us
    from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[]) as o (id, token, ending, error, delay_us)
), held as materialized (
    select
        j.id,
        o.ending,
        o.error,
        j.group_key is not null as grouped,
        j.cancel_requested or (o.ending = 'retry' and (j.attempt::bigint - j.excused) >= j.max_attempts) as ends,
        case when j.cancel_requested then 'cancelled' else 'dead' end as state,
        j.group_key is not null and o.ending <> 'release' and not q.strict as leaves,
        case when o.ending = 'release' then j.run_at else greatest((select at from clock), statement_timestamp() + (interval '1 microsecond' * coalesce(
            o.delay_us,
            least(
                extract(epoch from q.backoff_max)::float8,
                extract(epoch from q.backoff_base)::float8 * exp(least(greatest(j.attempt::bigint - j.excused - 1, 0) * ln(q.backoff_factor), 500))
            ) * 1e6 * (1 + (q.backoff_jitter * ((2 * random()) - 1)))
        ))) end as run_at,
        case when o.error is null then j.errors else
            coalesce(jsonb_path_query_array(j.errors, '$[last - 8 to last]'), '[]')
            || jsonb_build_object('attempt', j.attempt, 'run_at', j.run_at, 'claimed_at', b.claimed_at, 'at', statement_timestamp(), 'worker', j.worker, 'error', o.error)
        end as errors,
        b.claimed_at,
        case when j.cancel_requested then q.keep_cancelled else q.keep_dead end > interval '0' or j.followed as keep
    from o
    join dibs.job j on j.id = any (array[o.id]) and j.token = o.token and (j.lease_until > statement_timestamp() or j.token = any ($6::uuid[]))
    join dibs.queue q on q.name = j.queue
    cross join lateral (select greatest(least(j.claimed_at, statement_timestamp()), '0001-01-01 00:00:00Z') as claimed_at) b
    order by o.id
    for update of j
), back as (
    update dibs.job j
    set
        token = null,
        lease_until = null,
        excused = least(j.excused, 2147483646) + case when h.ending = 'retry' then 0 else 1 end,
        run_at = h.run_at,
        errors = h.errors,
        gate = case when not h.leaves then 0 when h.run_at <= (select at from clock) then 1 else 2 end,
        returned = j.returned or h.ending = 'release'
    from held h
    where j.id = any (array[h.id]) and not h.ends
    returning j.id, j.queue, j.group_key, j.gate, h.claimed_at, h.leaves, h.ending
), gone as (
    delete from dibs.job j
    using held h
    where j.id = any (array[h.id]) and h.ends
    returning j.*, h.errors as all_errors, h.state, h.keep, h.claimed_at as began
), kept as (
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors, flow, followed)
    select
        g.id,
        g.state,
        statement_timestamp(),
        g.run_at,
        g.created_at,
        g.began,
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
        g.all_errors,
        g.flow,
        g.followed
    from gone g
    where g.keep
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and not g.keep and p.id = any (array[g.id])
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(g.id)
    from gone g
    where g.followed or (g.flow is not null and not g.keep)
    having count(*) > 0
), stepless as (
    delete from dibs.step s
    using gone g
    where g.stepped and not g.keep and s.job = any (array[g.id])
), woken as (
    insert into dibs.wake (queue, group_key)
    select queue, group_key from back where group_key is not null
    union
    select queue, group_key from gone where group_key is not null
), counted as (
    insert into dibs.tally (queue, running, waiting, blocked, dead, cancelled, failed, died, run_us)
    select
        queue,
        - count(*),
        nullif(count(*) filter (where gate <> 1), 0),
        nullif(count(*) filter (where gate = 1), 0),
        nullif(count(*) filter (where kept = 'dead'), 0),
        nullif(count(*) filter (where kept = 'cancelled'), 0),
        nullif(count(*) filter (where failed), 0),
        nullif(count(*) filter (where died), 0),
        (sum(least(extract(epoch from statement_timestamp() - claimed_at) * 1000000, 9e14)) filter (where failed))::bigint
    from (
        select queue, claimed_at, gate, null as kept, ending = 'retry' as failed, false as died from back
        union all
        select queue, began, null, case when keep then state end, state = 'dead', state = 'dead' from gone
    ) e
    group by queue
)
select queue, group_key is not null, id::text, false from back
union all
select queue, group_key is not null, id::text, followed from gone
