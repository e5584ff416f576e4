-- Purpose: count the jobs that a job comes after, those that come after it, and those of its flow.
-- Parameters: $1 id; $2 how many rows there are at most; $3 how many jobs are counted at most: of those before, of those
--   after, and of the flow of those that have not ended and of each final state.
-- Columns out: before, after or flow; queue; kind; state, or unneeded; how many jobs; the
--   least id of these.
-- Concurrency: a plain read of one snapshot; locks nothing. It reads each of the jobs, by its id or by the
--   index of its flow. If more have not ended than are counted, half of the count are the oldest, which run
--   first, and half the newest, which come after others.
with o as materialized (
    select coalesce((select j.flow from dibs.job j where j.id = $1), (select f.flow from dibs.finished f where f.id = $1)) as flow
)
select
    m.part,
    m.queue,
    m.kind,
    m.state,
    count(*),
    min(m.id)
from (
    select
        e.part,
        e.id,
        x.queue,
        x.kind,
        x.state
    from (
        (select
            'before' as part,
            b.parent as id
        from dibs.edge b
        where b.child = $1
        limit $3)
        union all
        (select
            'after',
            a.child
        from dibs.edge a
        where a.parent = $1
        limit $3)
    ) e,
        lateral (
            select
                j.queue,
                j.kind,
                case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state
            from dibs.job j
            where j.id = e.id
            union all
            select
                f.queue,
                f.kind,
                case when f.state = 'cancelled' and (select c.state from dibs.finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
            from dibs.finished f
            where f.id = e.id
            offset 0
        ) x
    union all
    select
        'flow',
        l.id,
        l.queue,
        l.kind,
        l.state
    from (
        (select
            j.id,
            j.queue,
            j.kind,
            case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end as state
        from dibs.job j
        where j.flow = (select o.flow from o)
        order by j.id
        limit $3 - ($3 / 2))
        union
        (select
            j.id,
            j.queue,
            j.kind,
            case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end
        from dibs.job j
        where j.flow = (select o.flow from o)
        order by j.id desc
        limit $3 / 2)
    ) l
    union all
    select
        'flow',
        f.id,
        f.queue,
        f.kind,
        case when f.state = 'cancelled' and (select c.state from dibs.finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
    from unnest(array['completed', 'dead', 'cancelled']) as s (state)
    cross join lateral (
        select
            r.id,
            r.queue,
            r.kind,
            r.state,
            r.cause
        from dibs.finished r
        where r.flow = (select o.flow from o) and r.state = s.state
        limit $3
    ) f
) m
group by m.part, m.queue, m.kind, m.state
order by count(*) desc, m.queue, m.kind, m.state, m.part
limit $2
