-- Purpose: claim up to n due jobs of a queue, in its order, in one atomic step.
-- Parameters: $1 queue, $2 version of its settings, $3 n, $4 token, $5 worker,
--   $6 lease in microseconds, $7 kinds or null for all, $8 whether the queue has a
--   concurrency limit or a rate (turn_claim.sql and rate_free.sql must then have run just
--   before in the same transaction); then the lanes, ascending by priority, arrays of equal length:
--   $9 how to scan (0: the gap between two known lanes, 1: a lane, oldest first, 2: a
--   lane, newest first, 3: the put-back jobs of a lane, 4: jobs with turns), $10 lowest and $11 highest
--   priority, $12 run_at and $13 id of the place to start, or for 3, to end; $14
--   transactions that must still run for these places to hold (marks.go).
-- Columns out: whether one of $14 has ended, and nothing was claimed; how many pages of
--   the ready index it has read, by the connection's own counter (all are read before the
--   first row is returned); the job's columns after the claim.
--   One row with a null id if nothing was due; no row at all if the settings have
--   another version, or another claim has the turn.
-- Concurrency: the lanes' rows are locked as they are found, and locked rows are
--   skipped, so no claim waits for another. A row that changed after this
--   statement's snapshot is checked again in its newest version before it is
--   locked. The array of row addresses is computed once, so no more than n rows are
--   taken whatever the plan; a join could run a subquery in IN again.
--   The key share lock on the turn's row only shuts out claims under a concurrency limit
--   that was set meanwhile (turn_claim.sql), and is shut out by them (count_running.sql).
--   Jobs count as running until the sweep has taken them or their finish has
--   committed: a job whose lease has ended may still be finishing in a transaction.
--   Counting and reading wake and the settings need a snapshot of this statement's own: in a
--   transaction with one snapshot, a claim gives no jobs.
-- A group named in wake has jobs that may have lost their places (a limit was lowered, a
--   job was given back): they are not claimed until they are admitted anew. A group named
--   in wake_list has new jobs or fewer running ones. Its jobs keep their places, unless a
--   better one is blocked: that is looked up first, in an index, as the lists have none;
--   with more than 20 lists, every group counts as named.
-- In that part, "offset 0" keeps the planner from first reading all of wake into a hash
--   table: 100,000 rows a claim, seen with the planner's usual settings.
-- Known lanes are read from the mark on, and only their due jobs. Jobs that were put back
--   below it come first; with "gate::int" the planner can use only their own index. Groups
--   have no marks. A gap is empty unless a priority is used for the first time, so the
--   order is exact even then.
-- In a fair queue jobs with turns (admit.sql) come first, by turn and admission, then the others by
--   their lanes. The greatest turn of the claim is appended to reached, if it is a new one.
-- Where there are no groups, limits, rates, LIFO or fair queues, the parts marked for them are left out.
with turn as materialized (
    select queue
    from dibs.turn
    where queue = $1
    for key share skip locked
), setting as materialized (
    select
        group_limit,
        concurrency > 0 as limited,
        pg_stat_get_xact_blocks_fetched('dibs.job_ready'::regclass) as pages,
        late.ended as late,
        -- for groups, limits and LIFO {
        case when grouped then (
            select count(*)
            from (
                select
                from dibs.wake_list
                where queue = $1
                limit 21
            ) l
        ) else 0 end as lists,
        -- }
        case when late.ended then 0
        -- for groups, limits and LIFO {
        when $8 then least($3::int, case when rate_n > 0 then current_setting('dibs_turn.free')::int end, case when concurrency > 0 then concurrency - (
            select count(*)
            from dibs.job r
            where r.queue = $1 and r.gate = 3
        ) - case when counted then 0 else (
            select count(*)
            from dibs.claim c, unnest(c.ids) as i (id), dibs.job r
            where c.queue = $1 and r.id = any (array[i.id]) and r.token = c.token and r.gate::int = 0
        ) end end)
        -- }
        else $3::int end as n
    from dibs.queue, (
        select exists (
            select
            from unnest($14::text::xid8[]) as x (id)
            where pg_visible_in_snapshot(x.id, (select pg_current_snapshot()))
        ) as ended
    ) late
    where name = $1 and version = $2 and not paused
        and exists (select from turn)
        and (not $8 or counted is not null and current_setting('dibs_turn.claim', true) = 'true')
        and current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
), taken as (
    update dibs.job j
    set
        token = $4,
        lease_until = statement_timestamp() + ($6::bigint * interval '1 microsecond'),
        attempt = least(attempt, 2147483646) + 1,
        worker = $5,
        claimed_at = statement_timestamp(),
        unique_held = unique_held and coalesce(unique_until = 'finished', false),
        gate = case when $8 and (select limited from setting) then 3 else 0 end
    where j.ctid = any (array(
        select x.ctid
        from setting s,
            unnest($9::smallint[], $10::smallint[], $11::smallint[], $12::timestamptz[], $13::bigint[])
                as m (how, low, high, run_at, id),
            lateral (
                select a.ctid from (
                    select r.ctid
                    from dibs.job r
                    where m.how = 1
                        and r.queue = $1 and r.gate = 0 and r.priority = m.low
                        and (r.run_at, r.id) >= (m.run_at, m.id) and r.run_at <= statement_timestamp()
                        and r.token is null
                        -- for fair queues {
                        and r.turn is null
                        -- }
                        and ($7::text[] is null or r.kind = any ($7))
                        -- for groups {
                        and (r.group_key is null or not exists (
                            select
                            from dibs.wake w
                            where w.queue = $1 and w.group_key = r.group_key and not w.again
                            offset 0
                        ) and not (s.lists > 0 and exists (
                            select
                            from dibs.job b
                            where b.queue = $1 and b.gate = 1 and b.group_key = r.group_key
                                and (b.priority, b.run_at, b.id) < (r.priority, r.run_at, r.id)
                            offset 0
                        ) and (s.lists > 20 or exists (
                            select
                            from dibs.wake_list w
                            where w.queue = $1 and r.group_key = any (w.groups)
                            offset 0
                        ))))
                        -- }
                        -- for rates of groups {
                        and (r.group_key is null or not exists (
                            select
                            from dibs.rate b
                            where b.queue = $1 and b.group_key = r.group_key and b.not_before > statement_timestamp()
                            offset 0
                        ))
                        -- }
                    order by r.run_at, r.id
                    limit $3
                    for no key update skip locked
                ) a
                union all
                select a.ctid from (
                    select r.ctid
                    from dibs.job r
                    where m.how = 0
                        and r.queue = $1 and r.gate = 0 and r.priority >= m.low and r.priority <= m.high
                        and r.run_at <= statement_timestamp()
                        and r.token is null
                        -- for fair queues {
                        and r.turn is null
                        -- }
                        and ($7::text[] is null or r.kind = any ($7))
                        -- for groups, as above
                        -- for rates of groups, as above
                    order by r.priority, r.run_at, r.id
                    limit $3
                    for no key update skip locked
                ) a
                -- for fair queues {
                union all
                select a.ctid from (
                    select r.ctid
                    from dibs.job r
                    where m.how = 4
                        and r.queue = $1 and r.gate = 0 and r.turn is not null
                        and r.run_at <= statement_timestamp()
                        and r.token is null
                        and ($7::text[] is null or r.kind = any ($7))
                        -- for groups, as above
                        -- for rates of groups, as above
                    order by r.turn, r.admitted, r.id
                    limit $3
                    for no key update skip locked
                ) a
                -- }
                -- for groups, limits and LIFO {
                union all
                select a.ctid from (
                    select r.ctid
                    from dibs.job r
                    where m.how = 2
                        and r.queue = $1 and r.gate = 0 and r.priority = m.low
                        and r.run_at <= statement_timestamp()
                        and r.token is null
                        and ($7::text[] is null or r.kind = any ($7))
                        -- for groups, as above
                        -- for rates of groups, as above
                    order by r.run_at desc, r.id desc
                    limit $3
                    for no key update skip locked
                ) a
                -- }
                union all
                select a.ctid from (
                    select b.ctid
                    from dibs.job b
                    where m.how = 3
                        and b.queue = $1 and b.returned and b.gate::int = 0 and b.priority = m.low
                        and (b.run_at, b.id) < (m.run_at, m.id) and b.run_at <= statement_timestamp()
                        and b.token is null
                        and ($7::text[] is null or b.kind = any ($7))
                    order by b.run_at, b.id
                    limit $3
                    for no key update skip locked
                ) a
            ) x
        limit greatest((select n from setting), 0)
    ))
    returning j.*
), summed as materialized (
    select
        array_agg(id order by id) as ids,
        count(*) as n,
        sum(least(date_part('epoch', claimed_at - run_at) * 1000000, 9e14))::bigint as wait_us -- 28 years each at most, so that a sum always fits
    from taken
    having count(*) > 0
), logged as (
    insert into dibs.claim (token, check_at, queue, worker, ids)
    select $4, statement_timestamp() + ($6::bigint * interval '1 microsecond'), $1, $5, ids
    from summed
), counted as (
    insert into dibs.tally (queue, waiting, running, claimed, wait_us)
    select $1, - n, n, n, wait_us
    from summed
-- for fair queues {
), reached as (
    insert into dibs.reached (queue, turn)
    select $1, max(turn)
    from taken
    having max(turn) > coalesce((select max(turn) from dibs.reached where queue = $1), 0)
-- }
)
select
    s.late,
    pg_stat_get_xact_blocks_fetched('dibs.job_ready'::regclass) - s.pages,
    t.id,
    t.kind,
    coalesce(t.payload, w.payload),
    coalesce(t.metadata, w.metadata),
    t.priority,
    t.run_at,
    t.attempt,
    t.excused,
    t.max_attempts,
    t.group_key,
    case when t.group_key is not null then coalesce((
        select l.places
        from dibs.group_limit l
        where l.queue = $1 and l.group_key = t.group_key
    ), s.group_limit) end,
    t.unique_key,
    t.unique_until,
    t.lease_until,
    t.cancel_requested,
    t.created_at,
    t.claimed_at,
    t.errors::text,
    t.flow
from setting s
left join taken t on true
left join lateral (
    select p.payload, p.metadata
    from dibs.payload p
    where t.payload is null and p.id = any (array[t.id])
    offset 0
) w on true
-- for fair queues {
order by t.turn, t.admitted, t.priority, t.run_at, t.id
-- }
