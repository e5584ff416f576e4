-- Purpose: list the rows that a transaction has locked or changed.
-- Parameters: $1 the transaction's id, $2 the tables to look at, $3 the queues whose jobs
--   to look at, $4 more jobs.
-- Columns out: table, ctid, and the lock's mode if several transactions hold the row
--   together, else null.
-- Concurrency: a plain read; the transaction's locks are in xmax of the row versions that
--   all others see. It does not see rows that the transaction inserted. It reads up to
--   10,000 rows of each table, and of each queue's ready, blocked, later and counted jobs:
--   claims read these in the same order.
-- A number in xmax is a transaction's or a multixact's; it is read as a multixact's if
--   there is one with this transaction as a member.
with oldest as (
    select max(mxid_age(datminmxid)) as age
    from pg_database
)
select
    r.name,
    r.ctid::text,
    m.mode
from (
    select 'job' as name, j.ctid, j.xmax
    from (
        select unnest($4::bigint[])
        union
        select f.id
        from unnest($3::text[]) as q (name),
            lateral (
                (select id from dibs.job where queue = q.name and gate = 0 order by priority, run_at, id limit 10000)
                union all
                (select id from dibs.job where queue = q.name and gate = 1 limit 10000)
                union all
                (select id from dibs.job where queue = q.name and gate = 2 order by run_at limit 10000)
                union all
                (select id from dibs.job where queue = q.name and gate = 3 limit 10000)
            ) f
        where 'job' = any ($2::text[])
    ) i (id)
    join dibs.job j on j.id = any (array[i.id])
    union all
    (select 'finished', ctid, xmax from dibs.finished where 'finished' = any ($2::text[]) limit 10000)
    union all
    (select 'queue', ctid, xmax from dibs.queue where 'queue' = any ($2::text[]) limit 10000)
    union all
    (select 'turn', ctid, xmax from dibs.turn where 'turn' = any ($2::text[]) limit 10000)
    union all
    (select 'group_limit', ctid, xmax from dibs.group_limit where 'group_limit' = any ($2::text[]) limit 10000)
    union all
    (select 'claim', ctid, xmax from dibs.claim where 'claim' = any ($2::text[]) limit 10000)
    union all
    (select 'wake', ctid, xmax from dibs.wake where 'wake' = any ($2::text[]) limit 10000)
    union all
    (select 'wake_list', ctid, xmax from dibs.wake_list where 'wake_list' = any ($2::text[]) limit 10000)
    union all
    (select 'tally', ctid, xmax from dibs.tally where 'tally' = any ($2::text[]) limit 10000)
) r
left join lateral (
    select x.mode
    from pg_get_multixact_members(case when r.xmax <> '0'::xid and mxid_age(r.xmax) >= 1 and mxid_age(r.xmax) <= (select age from oldest) then r.xmax end) x
    where x.xid = $1::text::xid
    limit 1
) m on true
where r.xmax = $1::text::xid or m.mode is not null
order by 1, 2
