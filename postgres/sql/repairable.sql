-- Purpose: find counts that differ from the rows, groups that have free places but wait, and
--   payloads, steps and edges without a job: traces of rows that were deleted or inserted by hand.
-- Parameters: none.
-- Columns out: finding, one line each; queue; state whose count is wrong, 'group', 'step', 'edge', or 'payload' where
--   payloads have a table; how much the count lacks, or the job of an edge.
-- Concurrency: one snapshot, so work may go on meanwhile; reads everything and locks
--   nothing. Every transaction changes rows and their counts together, so what a count
--   lacks here it lacks until a repair adds it.
with counted as (
    select t.queue, s.state, sum(s.n)::bigint as n
    from dibs.tally t,
        lateral (
            values
                ('waiting', t.waiting),
                ('blocked', t.blocked),
                ('running', t.running),
                ('completed', t.completed),
                ('dead', t.dead),
                ('cancelled', t.cancelled)
        ) as s (state, n)
    group by t.queue, s.state
), present as (
    select
        queue,
        case when token is not null then 'running' when gate in (1, 5) then 'blocked' else 'waiting' end as state,
        count(*) as n
    from dibs.job
    group by 1, 2
    union all
    select queue, state, count(*)
    from dibs.finished
    group by queue, state
), groups as (
    select
        j.queue,
        j.group_key,
        coalesce(l.places, q.group_limit) as places,
        count(*) filter (where j.gate in (0, 3)) as held,
        count(*) filter (where j.gate in (0, 3) and j.token is null) as unclaimed,
        count(*) filter (where j.gate = 1) as blocked,
        exists (select from dibs.wake w where w.queue = j.queue and w.group_key = j.group_key)
            or exists (select from dibs.wake_list w where w.queue = j.queue and j.group_key = any (w.groups)) as woken,
        exists (select from dibs.rate r where r.queue = j.queue and r.group_key = j.group_key and r.held_until is not null) as paced
    from dibs.job j
    join dibs.queue q on q.name = j.queue
    left join dibs.group_limit l on l.queue = j.queue and l.group_key = j.group_key
    where j.group_key is not null
    group by j.queue, j.group_key, l.places, q.group_limit
)
select
    format('queue %s: counted %s %s, there are %s', q.name, coalesce(c.n, 0), s.state, coalesce(p.n, 0)) as finding,
    q.name as queue,
    s.state,
    coalesce(p.n, 0) - coalesce(c.n, 0) as lacks
from dibs.queue q
cross join unnest(array['waiting', 'blocked', 'running', 'completed', 'dead', 'cancelled']) as s (state)
left join counted c on c.queue = q.name and c.state = s.state
left join present p on p.queue = q.name and p.state = s.state
where coalesce(c.n, 0) <> coalesce(p.n, 0)
union all
select
    format('queue %s, group %s: %s jobs hold a place, %s of them unclaimed, the limit is %s', queue, group_key, held, unclaimed, places),
    queue,
    'group',
    0
from groups
where held > places and unclaimed > 0 and not woken
union all
select
    format('queue %s, group %s: %s of %s places held, %s jobs blocked and nobody told', queue, group_key, held, places, blocked),
    queue,
    'group',
    0
from groups
where held < places and blocked > 0 and not woken and not paced
union all
select format('%s payloads of jobs that are gone', count(*)), '', 'payload', 0
from dibs.payload p
where not exists (select from dibs.job j where j.id = p.id) and not exists (select from dibs.finished f where f.id = p.id)
having count(*) > 0
union all
select format('%s steps of jobs that are gone', count(*)), '', 'step', 0
from dibs.step s
where not exists (select from dibs.job j where j.id = s.job) and not exists (select from dibs.finished f where f.id = s.job)
having count(*) > 0
union all
select distinct format('job %s: its edges are left, and it is gone', e.child), '', 'edge', e.child
from dibs.edge e
where not exists (select from dibs.job j where j.id = e.child)
    and not exists (select from dibs.finished f where f.id = e.child)
    and not exists (select from dibs.ended_list l where e.child = any (l.ids))
