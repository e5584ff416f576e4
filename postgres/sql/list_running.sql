-- Purpose: list running jobs, newest first.
-- Parameters: $1 queue, $2 kind, $3 group, each '' for all; $4 only ids below
--   this; $5 how many; $6 how many claimed jobs to look at; $7 worker, $8 a part of the last
--   error and $9 of the payload, each '' for all.
-- Columns out: whether the row only marks how far the list has looked; id; 0; the columns of
--   live_job. If the list stops before it has $5 jobs or all, one row has the id of
--   the last job that it has looked at, which may have ended.
-- Concurrency: finds them in the log of claims instead of reading all live jobs. The log
--   names jobs that have ended, too, until the end of their leases. It reads from the
--   newest on and stops when it has $5 jobs; "offset 0" keeps the planner from the other
--   order. Locks nothing.
with looked as materialized (
    select i.id, c.token
    from dibs.claim c, unnest(c.ids) as i (id)
    where ($1 = '' or $1 = c.queue) and i.id < $4
    order by i.id desc
    limit $6
), found as materialized (
    select j.id, j.token
    from (
        select id, token
        from looked
        order by id desc
        offset 0
    ) c
    cross join lateral (
        select r.id, r.token, r.queue, r.kind, r.group_key, r.worker, r.errors, r.payload
        from dibs.job r
        where r.id = c.id and r.token = c.token
        offset 0
    ) j
    where ($1 = '' or $1 = j.queue)
        and ($2 = '' or $2 = j.kind)
        and ($3 = '' or j.group_key = $3)
        and ($7 = '' or j.worker = $7)
        and ($8 = '' or strpos(j.errors -> -1 ->> 'error', $8) > 0)
        and ($9 = '' or strpos(coalesce(j.payload, (select w.payload from dibs.payload w where w.id = j.id)), $9) > 0)
    limit $5
), page as materialized (
    select id, token, false as searched
    from found
    union all
    select min(id), null, true
    from looked
    having count(*) = $6 and (select count(*) from found) < $5
)
select p.searched, p.id, 0, v.*
from page p
left join lateral (
    select j.*
    from dibs.live_job j
    where j.id = any (array[p.id]) and j.token = p.token
    offset 0
) v on true
order by p.searched, p.id desc
