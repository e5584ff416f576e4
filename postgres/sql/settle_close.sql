-- Purpose: close edges from jobs that have ended.
-- Parameters: $1 how many at most.
-- Columns out: how many it has closed. The settings dibs_turn.unmet, dibs_turn.unmet_parents and
--   dibs_turn.unmet_causes list the followers that can never start, the jobs because of whose ends, which may be
--   several of one follower, and the first causes of these. The setting dibs_turn.waiting gets the other followers, too.
-- Concurrency: after settle_take.sql, in its transaction: only settlements, requeues (turn_settle.sql) and enqueues of
--   new followers write edges. If there are more edges, the rows of the list stay for the next round.
-- A parent that has left no row was not followed when it ended, in a queue that keeps no jobs that end so. Only
--   completed jobs are usually not kept, so it counts as completed if any queue is set so.
-- Edges of a follower that has ended are closed if the ends meet them: a requeue looks at the others.
with ended as materialized (
    select
        i.id,
        coalesce(f.state, case when exists (select from dibs.queue where keep_completed <= interval '0') then 'completed' else '' end) as state,
        coalesce(f.cause, i.id) as cause
    from unnest(('{' || current_setting('dibs_turn.ended', true) || '}')::bigint[]) as i (id)
    left join lateral (
        select r.state, r.cause
        from dibs.finished r
        where r.id = i.id
        offset 0
    ) f on true
), judged as materialized (
    select e.child, i.id as parent, e.met, i.cause
    from ended i
    cross join lateral (
        select o.child, o.need = 'ended' or (o.need = 'failed' and i.state in ('dead', 'cancelled')) or (o.need = 'completed' and i.state = 'completed') as met
        from dibs.edge o
        where o.parent = i.id and o.open
            and (
                o.need = 'ended' or (o.need = 'failed' and i.state in ('dead', 'cancelled')) or (o.need = 'completed' and i.state = 'completed')
                or exists (select from dibs.job j where j.id = o.child and j.gate::int = 5 offset 0)
            )
        order by o.child
        limit $1
    ) e
    limit $1
), closed as (
    update dibs.edge e
    set open = false
    from judged d
    where e.child = any (array[d.child]) and e.parent = any (array[d.parent])
), unlisted as (
    delete from dibs.ended_list
    where id = any (('{' || current_setting('dibs_turn.rows', true) || '}')::bigint[])
        and (select count(*) from judged) < $1
), unmet as materialized (
    select child, parent, cause
    from judged
    where not met
)
select
    (select count(*) from judged),
    set_config('dibs_turn.unmet', coalesce((select string_agg(u.child::text, ',' order by u.child, u.parent) from unmet u), ''), true),
    set_config('dibs_turn.unmet_parents', coalesce((select string_agg(u.parent::text, ',' order by u.child, u.parent) from unmet u), ''), true),
    set_config('dibs_turn.unmet_causes', coalesce((select string_agg(u.cause::text, ',' order by u.child, u.parent) from unmet u), ''), true),
    set_config('dibs_turn.waiting', coalesce((
        select string_agg(x.id::text, ',')
        from (
            select d.child as id
            from judged d
            where d.met
            union
            select w.id
            from unnest(('{' || current_setting('dibs_turn.waiting', true) || '}')::bigint[]) as w (id)
        ) x
    ), ''), true)
