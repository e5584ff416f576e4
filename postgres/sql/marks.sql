-- Purpose: find the first job that waits in each lane: marks can be moved up to there.
-- Parameters: $1 queue, $2 kinds or null for all; then, arrays of equal length,
--   $3 priority, $4 run_at and $5 id where to start; $6 the transactions, by xmax, whose
--   locks do not count.
-- Columns out: priority, run_at, id, of the lanes that have one.
-- Concurrency: a plain read. A job that somebody is just claiming is still one that
--   waits, unless that transaction is known to run for long. If it is, only a lock tells
--   whether it has more than a share of the row's key, as a foreign key takes, which no
--   claim minds: such rows are locked as by a claim, for as long as this statement runs.
select u.priority, coalesce(k.run_at, f.run_at), coalesce(k.id, f.id)
from unnest($3::smallint[], $4::timestamptz[], $5::bigint[]) as u (priority, run_at, id)
left join lateral (
    select r.run_at, r.id
    from dibs.job r
    where r.queue = $1 and r.gate = 0 and r.priority = u.priority
        and (r.run_at, r.id) >= (u.run_at, u.id)
        and r.token is null
        and ($2::text[] is null or r.kind = any ($2))
        and r.xmax::text <> all ($6::text[])
    order by r.run_at, r.id
    limit 1
) f on true
left join lateral (
    select r.run_at, r.id
    from dibs.job r
    where cardinality($6::text[]) > 0
        and r.queue = $1 and r.gate = 0 and r.priority = u.priority
        and (r.run_at, r.id) >= (u.run_at, u.id)
        and (r.run_at, r.id) < (coalesce(f.run_at, 'infinity'), coalesce(f.id, 0))
        and r.token is null
        and ($2 is null or r.kind = any ($2))
        and r.xmax::text = any ($6)
    order by r.run_at, r.id
    limit 1
    for no key update skip locked
) k on true
where coalesce(k.id, f.id) is not null
