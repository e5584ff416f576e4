-- Purpose: give the places of the groups named in wake and wake_list to the first jobs
--   of each.
-- Parameters: $1 queue; $2 whether its groups may have rates: if the queue says otherwise, nothing
--   is done. If they may not, the parts marked "for rates of groups" are left out.
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
-- A group with a rate has no more unclaimed jobs in places than its rate lets start now: the
--   starts that its bucket still has to count are seen in the same snapshot as the jobs that
--   have started. Claims wait for not_before, the time for which that was reckoned: a claim that
--   sees this may have begun earlier. Starts may be later, so what is owed is cut by the
--   clock. A job that keeps its place while it waits
--   for its retry may have to wait longer, and its group with it; no more of them do than may
--   ever start at once. held_until is when a group
--   is to be looked at again. A group without a row has saved up all that its queue's rate for groups
--   allows, if there is one, and gets a row.
-- In a strict queue a job that has been started comes first, due or not; in others a job
--   that is not due gives its place up. Rows are then changed by id, which finds the locked
--   version even if it is newer than the snapshot. If a row that matters was locked, its
--   group is named in wake again. Where that was a blocked row only, those that have places may
--   be claimed meanwhile: the row says so, as its transaction may stay open for long. "gate::int" keeps the planner from finding those ids
--   by an index of all blocked rows, or of all that hold a place.
-- In a fair queue each job gets a turn with its place: those of a group follow each other, and the first of
--   them is not before the queue's turn, to which claims have come (reached). Jobs that compete
--   share the turns of the group's unclaimed jobs by their order, so that a better job does not wait for
--   a turn of its own. A process that does not know yet whether the queue is fair does nothing.
-- From wake_list it takes rows until they name 500 groups, as later claims wait for this statement.
with woken as (
    delete from dibs.wake
    where current_setting('dibs_turn.admit', true) = 'true'
        and $2 = (
            select group_rates
            from dibs.queue
            where name = $1
                -- for fair queues {
                and claim_order = 'fair'
                -- }
                -- for other orders {
                and claim_order <> 'fair'
                -- }
        )
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
        and $2 = (
            select group_rates
            from dibs.queue
            where name = $1
                -- for fair queues {
                and claim_order = 'fair'
                -- }
                -- for other orders {
                and claim_order <> 'fair'
                -- }
        )
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
-- for rates of groups {
), begun as (
    delete from dibs.start
    where queue = $1 and current_setting('dibs_turn.admit', true) = 'true'
    returning at_ns, groups
), paced as materialized (
    select group_key
    from dibs.rate
    where queue = $1 and held_until <= statement_timestamp() and current_setting('dibs_turn.admit', true) = 'true'
    order by held_until
    limit 500
), clock as materialized (
    select
        (extract(epoch from statement_timestamp()) * 1000000)::bigint * 1000 as now_ns,
        (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000 as clock_ns,
        nullif(group_step_ns, 0) as step_ns,
        group_slack_ns as slack_ns
    from dibs.queue
    where name = $1
-- }
), met as materialized (
    select
        -- for rates of groups {
        m.named,
        r.ctid as rate_row,
        b.step_ns,
        b.slack_ns,
        t.now_ns,
        least(
            greatest(
                coalesce(r.full_ns, 0) + (coalesce(cardinality(m.starts), 0) * b.step_ns),
                case
                    when cardinality(m.starts) = 1 then m.starts[1] + b.step_ns
                    else (
                        select max(s.at_ns + (s.nth * b.step_ns))
                        from unnest(m.starts) with ordinality s (at_ns, nth)
                    )
                end
            ),
            t.clock_ns + b.slack_ns + b.step_ns
        ) as full_ns,
        -- }
        m.group_key
    from (
        select
            -- for rates of groups {
            bool_or(m.named) as named,
            array_agg(m.at_ns order by m.at_ns desc) filter (where m.at_ns is not null) as starts,
            -- }
            m.group_key
        from (
            select group_key, true as named, null::bigint as at_ns
            from woken
            union all
            select unnest(groups), true, null
            from listed
            -- for rates of groups {
            union all
            select group_key, true, null
            from paced
            union all
            select unnest(groups), false, at_ns
            from begun
            -- }
        ) m
        group by m.group_key
    ) m
    -- for rates of groups {
    cross join clock t
    left join lateral (
        select r.ctid, r.step_ns, r.slack_ns, r.full_ns
        from dibs.rate r
        where r.queue = $1 and r.group_key = m.group_key
        offset 0
    ) r on true
    cross join lateral (
        select coalesce(r.step_ns, t.step_ns) as step_ns, coalesce(r.slack_ns, t.slack_ns) as slack_ns
    ) b
    -- }
-- for fair queues {
), round as materialized (
    select
        coalesce((select max(turn) from dibs.reached where queue = $1), 1) as turn,
        nextval('dibs.admission') as admitted
    where current_setting('dibs_turn.admit', true) = 'true'
-- }
), counted as materialized (
    select
        w.group_key,
        -- for rates of groups {
        w.rate_row,
        w.step_ns,
        w.slack_ns,
        w.now_ns,
        w.full_ns,
        p.owed_ns,
        h.idle - u.n as kept,
        greatest(coalesce(l.places, q.group_limit) - h.held + u.n, 0) as room,
        -- }
        q.strict,
        -- for fair queues {
        greatest(v.turn, h.last_turn + 1) as next_turn,
        v.admitted,
        -- }
        u.n < coalesce(cardinality(c.ids), 0) as busy,
        u.ids,
        greatest(least(
            -- for rates of groups {
            (w.slack_ns / w.step_ns) + 1 - h.idle + u.n,
            -- }
            coalesce(l.places, q.group_limit) - h.held + u.n
        ), 0) as most,
        greatest(least(
            -- for rates of groups {
            p.may_start - h.idle + u.n,
            -- }
            coalesce(l.places, q.group_limit) - h.held + u.n
        ), 0) as free
    from met w
    join dibs.queue q on q.name = $1
    -- for fair queues {
    cross join round v
    -- }
    left join dibs.group_limit l on l.queue = $1 and l.group_key = w.group_key,
        -- for rates of groups {
        lateral (
            select
                greatest(w.full_ns - w.now_ns, 0) as owed_ns,
                case when (w.full_ns - w.now_ns) > w.slack_ns then 0 else ((w.slack_ns - greatest(w.full_ns - w.now_ns, 0)) / w.step_ns) + 1 end as may_start
        ) p,
        -- }
        lateral (
            select
                -- for fair queues {
                max(j.turn) filter (where j.token is null and j.gate = 0) as last_turn,
                -- }
                count(*) as held,
                count(*) filter (where j.token is null) as idle
            from dibs.job j
            where j.queue = $1 and j.group_key = w.group_key and j.gate in (0, 3) and j.group_key is not null
        ) h,
        lateral (
            select array_agg(j.id) as ids
            from dibs.job j
            where h.idle > 0
                and j.queue = $1 and j.group_key = w.group_key and j.gate in (0, 3) and j.group_key is not null
                and j.token is null
                and (
                    -- for rates of groups {
                    h.idle > p.may_start or
                    -- }
                    -- for fair queues {
                    j.turn is null or
                    -- }
                    h.held > coalesce(l.places, q.group_limit) or j.run_at > statement_timestamp() or exists (
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
    -- for rates of groups {
    where w.named
    -- }
), decided as materialized (
    select n.*, d.*
    from counted n,
        lateral (
            select
                count(*) filter (where r.wanted) as wanted,
                -- for rates of groups {
                count(*) filter (where not r.wanted and not r.blocked) as displaced,
                -- }
                count(*) filter (where r.wanted and r.blocked) as taken,
                -- for fair queues {
                array_agg(r.id order by r.nth) filter (where r.wanted and (not r.started or r.turn is null)) as takers,
                array_agg(r.turn order by r.turn, r.admitted) filter (where r.turn is not null and not r.started) as turns,
                array_agg(r.admitted order by r.turn, r.admitted) filter (where r.turn is not null and not r.started) as admissions,
                -- }
                array_agg(r.id) filter (where r.wanted = r.blocked) as moving
            from (
                select
                    c.id,
                    c.blocked,
                    -- for fair queues {
                    c.turn,
                    c.admitted,
                    c.started,
                    row_number() over (order by c.stays desc, c.started desc, c.priority, c.run_at, c.id) as nth,
                    -- }
                    c.stays and row_number() over (order by c.stays desc, c.started desc, c.priority, c.run_at, c.id) <= case when c.started then n.most else n.free end as wanted
                from (
                    select
                        j.id,
                        false as blocked,
                        -- for fair queues {
                        j.turn,
                        j.admitted,
                        -- }
                        j.priority,
                        j.run_at,
                        n.strict and j.attempt > 0 as started,
                        n.strict or j.run_at <= statement_timestamp() as stays
                    from dibs.job j
                    where j.id = any (n.ids)
                    union all
                    select
                        b.id,
                        true,
                        -- for fair queues {
                        null,
                        null,
                        -- }
                        b.priority,
                        b.run_at,
                        false,
                        true
                    from (
                        select j.id, j.priority, j.run_at
                        from dibs.job j
                        where j.queue = $1 and j.group_key = n.group_key and j.gate = 1
                        order by j.priority, j.run_at, j.id
                        limit n.free
                        for no key update skip locked
                    ) b
                ) c
            ) r
        ) d
-- for fair queues {
), placed as materialized (
    select
        t.id,
        coalesce(d.turns[t.nth], d.next_turn + t.nth - 1 - coalesce(cardinality(d.turns), 0)) as turn,
        coalesce(d.admissions[t.nth], d.admitted) as admitted
    from decided d, unnest(d.takers) with ordinality as t (id, nth)
), moved as (
    update dibs.job j
    set
        gate = case when not m.moves then j.gate when j.gate = 1 then 0 when j.run_at <= statement_timestamp() then 1 else 2 end,
        turn = case when m.moves and j.gate <> 1 then null else m.turn end,
        admitted = m.admitted
    from (
        select c.id, bool_or(c.moves) as moves, max(c.turn) as turn, max(c.admitted) as admitted
        from (
            select unnest(moving) as id, true as moves, null::bigint as turn, null::bigint as admitted
            from decided
            union all
            select id, false, turn, admitted
            from placed
        ) c
        group by c.id
    ) m
    where j.id = any (array[m.id]) and j.gate::int in (0, 1, 3) and j.token is null
        and (m.moves or coalesce((j.turn, j.admitted) <> (m.turn, m.admitted), true))
    returning case when m.moves then j.gate end as gate
-- }
-- for other orders {
), moved as (
    update dibs.job
    set gate = case when gate = 1 then 0 when run_at <= statement_timestamp() then 1 else 2 end
    where id = any (array(select unnest(moving) from decided)) and gate::int in (0, 1, 3) and token is null
    returning gate
-- }
), again as (
    insert into dibs.wake (queue, group_key, again)
    select $1, d.group_key, not d.busy
    from decided d
    where d.busy or d.free > d.wanted and exists (
        select
        from dibs.job j
        where j.queue = $1 and j.group_key = d.group_key and j.gate = 1
        offset d.taken
    )
-- for rates of groups {
), paid as (
    update dibs.rate r
    set full_ns = m.full_ns
    from met m
    where r.ctid = m.rate_row and not m.named
), reckoned as materialized (
    select
        b.rate_row,
        b.group_key,
        b.step_ns,
        b.slack_ns,
        b.full_ns,
        to_timestamp(0) + (b.all_us * interval '1 microsecond') as not_before,
        case
            when b.waits and b.more_us > b.now_us then to_timestamp(0) + (b.more_us * interval '1 microsecond')
            when b.all_us > b.now_us then to_timestamp(0) + (b.all_us * interval '1 microsecond')
        end as held_until
    from (
        select
            d.rate_row,
            d.group_key,
            d.step_ns,
            d.slack_ns,
            d.full_ns,
            d.now_ns / 1000 as now_us,
            (d.now_ns + greatest(d.owed_ns + ((d.kept + d.wanted - 1) * d.step_ns) - d.slack_ns, 0) + 999) / 1000 as all_us,
            (d.now_ns + greatest(d.owed_ns + ((d.kept + d.wanted) * d.step_ns) - d.slack_ns, 0) + 999) / 1000 as more_us,
            d.room > d.wanted and (d.displaced > 0 or exists (
                select
                from dibs.job j
                where j.queue = $1 and j.group_key = d.group_key and j.gate = 1
                offset d.taken
            )) as waits
        from decided d
        where d.step_ns is not null
    ) b
), changed as (
    update dibs.rate r
    set
        full_ns = b.full_ns,
        not_before = b.not_before,
        held_until = b.held_until
    from reckoned b
    where r.ctid = b.rate_row
), made as (
    insert into dibs.rate (queue, group_key, step_ns, slack_ns, full_ns, not_before, held_until)
    select $1, group_key, step_ns, slack_ns, full_ns, not_before, held_until
    from reckoned
    where rate_row is null
-- }
)
insert into dibs.tally (queue, waiting, blocked)
select $1, c.n, - c.n
from (
    select count(*) filter (where gate = 0) - count(*) filter (where gate = 1) as n
    from moved
) c
where c.n <> 0
