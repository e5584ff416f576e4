-- Purpose: give a restarted worker the jobs of a queue that it still holds.
-- Parameters: $1 queue, $2 worker, $3 new token, $4 lease in microseconds.
-- Columns out: as claim.sql.
-- Concurrency: fenced by the old token and lease, so it does not take jobs that another
--   claim or the sweep has taken meanwhile, nor jobs that an open transaction is
--   finishing. Jobs without attempts left keep the old token and die when their lease
--   ends.
with good as materialized (
    select j.id
    from dibs.claim c, unnest(c.ids) as i (id), dibs.job j
    where c.queue = $1 and c.worker = $2 and j.id = any (array[i.id]) and j.token = c.token
        and j.lease_until > statement_timestamp() and (j.attempt::bigint - j.excused) < j.max_attempts
        and not j.cancel_requested
    order by i.id
    for no key update of j skip locked
), taken as (
    update dibs.job j
    set
        token = $3,
        lease_until = statement_timestamp() + ($4::bigint * interval '1 microsecond'),
        attempt = least(attempt, 2147483646) + 1,
        claimed_at = statement_timestamp()
    from good g
    where j.id = any (array[g.id])
    returning j.*
), logged as (
    insert into dibs.claim (token, check_at, queue, worker, ids)
    select $3, statement_timestamp() + ($4::bigint * interval '1 microsecond'), $1, $2, array_agg(id order by id)
    from taken
    having count(*) > 0
), counted as (
    insert into dibs.tally (queue, claimed)
    select $1, count(*)
    from taken
    having count(*) > 0
)
select
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
    coalesce((
        select l.places
        from dibs.group_limit l
        where l.queue = $1 and l.group_key = t.group_key
    ), s.group_limit),
    t.unique_key,
    t.unique_until,
    t.lease_until,
    t.cancel_requested,
    t.created_at,
    t.claimed_at,
    t.errors::text,
    t.flow
from taken t
join dibs.queue s on s.name = $1
left join lateral (
    select p.payload, p.metadata
    from dibs.payload p
    where t.payload is null and p.id = any (array[t.id])
    offset 0
) w on true
