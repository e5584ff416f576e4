-- Purpose: find the first waiting job of each lane: its mark can be moved up to there.
-- Parameters: $1 queue, $2 kinds or null for all; then, arrays of equal length,
--   $3 priority, $4 run_at and $5 id where to start; $6 the transactions, by xmax, whose
--   locks do not count.
-- Columns out: priority, run_at and id of the job, for each lane that has one.
-- Concurrency: a plain read. A job that is just being claimed counts as waiting, unless
--   the transaction is known to run for long (its number is in $6). Such a transaction may
--   hold only a key share lock, as a foreign key takes, beside which the job can be claimed.
--   Only a lock shows this: these rows are locked as by a claim, while this statement runs.
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
