-- Purpose: count the jobs that a job comes after, those that come after it, and those of its flow.
-- Parameters: $1 id; $2 how many rows there are at most.
-- Columns out: before, after or flow; queue; kind; state, or unneeded; how many jobs; the
--   least id of these.
-- Concurrency: a plain read of one snapshot; locks nothing. It reads each of the jobs, by its id or by the
--   index of its flow.
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
        select
            'before' as part,
            b.parent as id
        from dibs.edge b
        where b.child = $1
        union all
        select
            'after',
            a.child
        from dibs.edge a
        where a.parent = $1
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
        j.id,
        j.queue,
        j.kind,
        case when j.token is not null then 'running' when j.gate in (1, 5) then 'blocked' else 'waiting' end
    from dibs.job j
    where j.flow = coalesce((select o.flow from dibs.job o where o.id = $1), (select o.flow from dibs.finished o where o.id = $1))
    union all
    select
        'flow',
        f.id,
        f.queue,
        f.kind,
        case when f.state = 'cancelled' and (select c.state from dibs.finished c where c.id = f.cause) = 'completed' then 'unneeded' else f.state end
    from dibs.finished f
    where f.flow = coalesce((select o.flow from dibs.job o where o.id = $1), (select o.flow from dibs.finished o where o.id = $1))
) m
group by m.part, m.queue, m.kind, m.state
order by count(*) desc, m.queue, m.kind, m.state, m.part
limit $2
