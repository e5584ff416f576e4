-- Purpose: end jobs for good: completed, dead or cancelled.
-- Parameters: arrays of equal length: $1 id, $2 token, $3 state, $4 result or null,
--   $5 error or null; $4 and $5 may be null or empty if there are none. $6 tokens of claims
--   made in this transaction, or null: while it is open no other worker can take their
--   jobs, so their leases do not end.
-- Columns out: queue; whether it has groups among these jobs; the ids of those whose token
--   was good, as text, which every driver can read; whether others come after some of them,
--   which the text for plain jobs leaves out.
-- Concurrency: the delete is fenced by token and lease, and checks both again in the
--   newest version of a row that changed meanwhile. Jobs that it does not return were
--   refused and are unchanged. The caller sorts by id, so that all batches lock in the
--   same order.
-- One pass over the deleted rows, which are wide, makes all counts. date_part() computes
--   in floating point; extract() would compute in numeric, which takes longer than all
--   other counting.
-- A claimed_at that SQL by hand has put out of all bounds must not fail the jobs beside it.
-- "not in" asks a hash table of the few queues that keep nothing; a join would look up
--   the queue of each job.
-- Jobs that others come after are kept, whatever the queue says, and listed in the statement that ends
--   them, for settle_take.sql. So are those of flows that are not kept, as they may have edges.
-- The text for plain jobs takes a fifth less time. It passes over jobs of flows, jobs that others come after and jobs
--   with steps; as their leases hold, the caller runs the whole text for them.
-- With "= any (array[o.id])" the planner can use only the index: see planning in open.go.
with o as materialized (
    select o.id, o.token, o.state, o.result, o.error
    from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[]) as o (id, token, state, result, error)
), gone as (
    delete from dibs.job j
    using o
    where j.id = any (array[o.id]) and j.token = o.token and (j.lease_until > statement_timestamp() or j.token = any ($6::uuid[]))
        -- for plain jobs {
        and j.flow is null and not j.followed and j.stepped is null
        -- }
    returning j.id, greatest(least(j.claimed_at, statement_timestamp()), '0001-01-01 00:00:00Z') as claimed_at, o.state, j.queue, j.group_key, j.run_at, j.created_at, j.attempt, j.excused, j.max_attempts, j.priority, j.cancel_requested, j.kind, j.unique_key, j.unique_until, j.worker, j.payload, j.metadata, j.errors, o.result, o.error
        -- for flows and steps {
        , j.stepped, j.flow, j.followed
        -- }
), ended as materialized (
    select
        queue,
        count(*) as n,
        count(*) filter (where state = 'completed') as completed,
        count(*) filter (where state = 'dead') as dead,
        count(*) filter (where state = 'cancelled') as cancelled,
        sum(least(date_part('epoch', statement_timestamp() - claimed_at) * 1000000, 9e14)) filter (where state <> 'cancelled')::bigint as run_us,
        bool_or(group_key is not null) as grouped,
        -- for flows and steps {
        bool_or(followed) as followed,
        count(*) filter (where followed and state = 'completed') as followed_completed,
        count(*) filter (where followed and state = 'dead') as followed_dead,
        count(*) filter (where followed and state = 'cancelled') as followed_cancelled,
        -- }
        array_agg(id) as ids
    from gone
    group by queue
), unkept as materialized (
    select q.name as queue, s.state
    from ended e
    join dibs.queue q on q.name = e.queue,
        lateral (values ('completed', q.keep_completed), ('dead', q.keep_dead), ('cancelled', q.keep_cancelled)) s (state, keep)
    where s.keep <= interval '0'
), kept as (
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors, result
        -- for flows and steps {
        , flow, followed
        -- }
    )
    select
        g.id,
        g.state,
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
        case when g.error is null then g.errors else
            coalesce(jsonb_path_query_array(g.errors, '$[last - 8 to last]'), '[]')
            || jsonb_build_object('attempt', g.attempt, 'run_at', g.run_at, 'claimed_at', g.claimed_at, 'at', statement_timestamp(), 'worker', g.worker, 'error', g.error)
        end,
        g.result
        -- for flows and steps {
        , g.flow, g.followed
        -- }
    from gone g
    where not (g.queue, g.state) = any (select u.queue, u.state from unkept u)
        -- for flows and steps {
        or g.followed
        -- }
), unneeded as (
    delete from dibs.payload p
    using gone g
    where g.payload is null and p.id = any (array[g.id])
        and ((g.queue, g.state) = any (select u.queue, u.state from unkept u)) = true
        -- for flows and steps {
        and not g.followed
), listed as (
    insert into dibs.ended_list (ids)
    select array_agg(g.id)
    from gone g
    where g.followed or (g.flow is not null and ((g.queue, g.state) = any (select u.queue, u.state from unkept u)) is true)
    having count(*) > 0
), stepless as (
    delete from dibs.step s
    using gone g
    where g.stepped and not g.followed and s.job = any (array[g.id])
        and ((g.queue, g.state) = any (select u.queue, u.state from unkept u)) = true
-- }
), woken as (
    insert into dibs.wake_list (queue, groups)
    select queue, array_agg(group_key)
    from (
        select distinct queue, group_key
        from gone
        where group_key is not null and exists (select from ended where grouped)
    ) g
    group by queue
), counted as (
    insert into dibs.tally (queue, running, completed, dead, cancelled, succeeded, failed, died, run_us)
    select
        e.queue,
        - e.n,
        case when q.keep_completed > interval '0' then nullif(e.completed, 0)
            -- for flows and steps {
            else nullif(e.followed_completed, 0)
            -- }
        end,
        case when q.keep_dead > interval '0' then nullif(e.dead, 0)
            -- for flows and steps {
            else nullif(e.followed_dead, 0)
            -- }
        end,
        case when q.keep_cancelled > interval '0' then nullif(e.cancelled, 0)
            -- for flows and steps {
            else nullif(e.followed_cancelled, 0)
            -- }
        end,
        nullif(e.completed, 0),
        nullif(e.dead, 0),
        nullif(e.dead, 0),
        e.run_us
    from ended e
    join dibs.queue q on q.name = e.queue
)
select queue, grouped, ids::text
    -- for flows and steps {
    , followed
    -- }
from ended
