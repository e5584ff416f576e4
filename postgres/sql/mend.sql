-- Purpose: look at some live jobs, and mend those that SQL by hand has left in a state in
--   which nobody would ever claim or expire them; have those looked at again that wait for
--   others, if one of the first 100 of these is gone; and add rows that the table turn lacks,
--   without which nobody claims from a queue; and note, for new_queues.sql, the queues of these
--   jobs that have no settings, as after an enqueue that committed after delete_queue.sql.
-- Parameters: $1 look at jobs with a greater id, $2 how many.
-- Columns out: the last id that it has looked at, 0 if there were fewer than $2; how many
--   rows it has mended; whether a group among them waits though it has free places, or holds
--   more places than it may, and no wake row names it: repairable.sql finds which.
-- Concurrency: in the turn of turn_sweep.sql. A claim writes jobs and its row in one
--   transaction, so a running job without one is damaged in every snapshot, not just new.
--   Rows that others have locked are left to the next time. A job that runs without a claim
--   gets one, so that it ends with its lease like all others; a lease that is missing, or
--   longer than any that a store gives, ends now.
-- For groups, "offset 0" keeps the planner from reading whole tables into hash tables first.
with looked as materialized (
    select id, queue, group_key, gate, token, lease_until, claimed_at
    from dibs.job
    where id > $1 and current_setting('dibs_turn.sweep', true) = 'true'
    order by id
    limit $2
), wrong as (
    select l.id
    from looked l
    where case
        when l.token is null then not (l.gate in (0, 1, 2, 5)) or (l.gate in (1, 2) and coalesce(l.group_key, '') = '')
        else not (l.gate in (0, 3)) or l.lease_until is null or l.lease_until > (statement_timestamp() + interval '25 hours') or l.claimed_at is null
            or not exists (
                select
                from dibs.claim c
                where c.token = l.token and l.id = any (c.ids) and c.check_at <= (statement_timestamp() + interval '25 hours')
                offset 0
            )
    end
), locked as materialized (
    select j.id
    from dibs.job j
    where j.id = any (array(select id from wrong))
    order by j.id
    for no key update skip locked
), mended as (
    update dibs.job j
    set
        gate = case when j.token is not null and j.gate = 3 then 3 else 0 end,
        lease_until = case
            when j.token is null then null
            when j.lease_until <= (statement_timestamp() + interval '25 hours') then j.lease_until
            else statement_timestamp()
        end,
        claimed_at = case when j.token is null then j.claimed_at else coalesce(j.claimed_at, statement_timestamp()) end
    where j.id = any (array(select id from locked))
    returning j.id, j.queue, j.token, j.lease_until, j.worker
), logged as (
    insert into dibs.claim (token, check_at, queue, worker, ids)
    select token, min(lease_until), min(queue), coalesce(min(worker), ''), array_agg(id order by id)
    from mended
    where token is not null
    group by token
    on conflict (token) do update
    set
        check_at = least(claim.check_at, excluded.check_at),
        ids = array(select unnest(claim.ids) union all select unnest(excluded.ids))
), forgotten as (
    insert into dibs.ended_list (ids)
    select array_agg(l.id)
    from looked l
    where l.gate = 5 and l.token is null
        and (
            select bool_and(exists (select from dibs.job p where p.id = e.parent offset 0)) is not true
            from (
                select o.parent
                from dibs.edge o
                where o.child = l.id and o.open::int = 1
                order by o.parent
                limit 100
            ) e
        )
    having count(*) > 0
), turns as (
    insert into dibs.turn (queue)
    select q.name
    from dibs.queue q
    where current_setting('dibs_turn.sweep', true) = 'true'
        and not exists (select from dibs.turn t where t.queue = q.name offset 0)
    on conflict (queue) do nothing
    returning queue
), new as (
    insert into dibs.wake_list (queue, groups)
    select l.queue, coalesce(array_agg(distinct l.group_key) filter (where l.group_key is not null), '{}')
    from looked l
    where l.queue <> '' and octet_length(l.queue) < 256
        and not exists (select from dibs.queue q where q.name = l.queue offset 0)
        and not exists (select from dibs.wake_list w where w.queue = l.queue offset 0)
    group by l.queue
), grouped as (
    select distinct queue, group_key
    from looked
    where gate in (0, 1) and token is null and group_key is not null
)
select
    (select case when count(*) = $2 then max(id) else 0 end from looked),
    (select count(*) from mended) + (select count(*) from turns),
    exists (
        select
        from grouped g
        join dibs.queue q on q.name = g.queue
        left join dibs.group_limit l on l.queue = g.queue and l.group_key = g.group_key
        cross join lateral (
            select count(*) as held, count(*) filter (where token is null) as unclaimed
            from (
                select p.token
                from dibs.job p
                where p.queue = g.queue and p.group_key = g.group_key and p.gate in (0, 3)
                limit coalesce(l.places, q.group_limit) + 1
            ) h
        ) n
        where case
                when n.held < coalesce(l.places, q.group_limit)
                    then exists (select from dibs.job b where b.queue = g.queue and b.gate = 1 and b.group_key = g.group_key offset 0)
                        and not exists (
                            select
                            from dibs.rate r
                            where r.queue = g.queue and r.group_key = g.group_key and coalesce(r.held_until, '-infinity') > '-infinity'
                            offset 0
                        )
                else n.held > coalesce(l.places, q.group_limit) and n.unclaimed > 0
            end
            and not exists (select from dibs.wake w where w.queue = g.queue and w.group_key = g.group_key offset 0)
            and not exists (select from dibs.wake_list w where w.queue = g.queue and g.group_key = any (w.groups) offset 0)
    )
