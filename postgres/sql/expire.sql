-- Purpose: take jobs whose lease ended away from their workers: waiting again, or
--   dead if no attempts are left, or cancelled if that was asked for.
-- Parameters: none.
-- Columns out: queue; how many of its jobs were taken away; whether others come after one of them that has ended.
-- Concurrency: looks at the claims that turn_expire.sql has just locked in the same
--   transaction, in a newer snapshot, so that it sees leases that were shortened
--   (extend.sql waits for that lock). A lease that ended cannot be extended or
--   finished, and no claim takes a row with a token. A locked row is being finished
--   in a transaction that began to do so before the lease ended: it is skipped and
--   looked at again a second later.
-- A job that was inserted by hand with the id of a finished one ends without a trace: it
-- must not keep the others from their ends.
-- A job keeps its place in its group and its run_at, and has no backoff.
with ended as materialized (
    select c.token, c.ids
    from dibs.claim c
    where c.token = any (('{' || current_setting('dibs_turn.expire', true) || '}')::uuid[])
), held as materialized (
    select j.id, j.token, j.lease_until
    from ended e, unnest(e.ids) as i (id)
    join dibs.job j on j.id = any (array[i.id])
    where j.token = e.token
), lost as materialized (
    select
        j.id,
        j.token,
        j.cancel_requested or (j.attempt::bigint - j.excused) >= j.max_attempts as ends,
        case when j.cancel_requested then 'cancelled' else 'dead' end as state,
        case when j.cancel_requested then q.keep_cancelled else q.keep_dead end > interval '0' or j.followed as keep,
        coalesce(jsonb_path_query_array(j.errors, '$[last - 8 to last]'), '[]')
            || jsonb_build_object('attempt', j.attempt, 'run_at', j.run_at, 'claimed_at', greatest(least(j.claimed_at, statement_timestamp()), '0001-01-01 00:00:00Z'), 'at', statement_timestamp(), 'worker', j.worker, 'error', 'lease expired') as errors
    from held h
    join dibs.job j on j.id = any (array[h.id])
    join dibs.queue q on q.name = j.queue
    where h.lease_until <= statement_timestamp() and j.token = h.token and j.lease_until <= statement_timestamp()
    order by h.id
    for no key update of j skip locked
), back as (
    update dibs.job j
    set
        token = null,
        lease_until = null,
        errors = l.errors,
        gate = 0,
        returned = true
    from lost l
    where j.id = any (array[l.id]) and not l.ends
    returning j.queue, j.group_key
), gone as (
    delete from dibs.job j
    using lost l
    where j.id = any (array[l.id]) and l.ends
    returning j.*, l.state, l.keep, l.errors as all_errors
), kept as (
    insert into dibs.finished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, group_key, unique_key, unique_until, worker, payload, metadata, errors, flow, followed)
    select
        g.id,
        g.state,
        statement_timestamp(),
        g.run_at,
        g.created_at,
        greatest(least(g.claimed_at, statement_timestamp()), '0001-01-01 00:00:00Z'),
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
    on conflict (id) do nothing
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
), found as materialized (
    select token, count(*) as jobs
    from lost
    group by token
), remaining as materialized (
    select
        h.token,
        case when h.ended > coalesce(f.jobs, 0)
            then least(h.next_end, statement_timestamp() + interval '1 second')
            else h.next_end
        end as check_at
    from (
        select
            token,
            count(*) filter (where lease_until <= statement_timestamp()) as ended,
            min(lease_until) filter (where lease_until > statement_timestamp()) as next_end
        from held
        group by token
    ) h
    left join found f on f.token = h.token
    where h.next_end is not null or h.ended > coalesce(f.jobs, 0)
), forgotten as (
    delete from dibs.claim c
    using ended e
    where c.token = any (array[e.token]) and not exists (select from remaining r where r.token = e.token)
), later as (
    update dibs.claim c
    set check_at = r.check_at
    from remaining r
    where c.token = any (array[r.token])
), counted as (
    insert into dibs.tally (queue, running, waiting, dead, cancelled, failed, died)
    select
        queue,
        - count(*),
        nullif(count(*) filter (where state is null), 0),
        nullif(count(*) filter (where state = 'dead' and keep), 0),
        nullif(count(*) filter (where state = 'cancelled' and keep), 0),
        nullif(count(*) filter (where state is null or state <> 'cancelled'), 0),
        nullif(count(*) filter (where state = 'dead'), 0)
    from (
        select queue, null as state, false as keep from back
        union all
        select queue, state, keep from gone
    ) e
    group by queue
    returning queue, running
)
select
    c.queue,
    (- c.running)::int,
    coalesce((select bool_or(g.followed) from gone g where g.queue = c.queue), false)
from counted c
