-- Purpose: find sessions that hold up others at the tables of the schema for over two seconds.
-- Parameters: $1 the schema, as it is written in SQL.
-- Columns out: 'lock'; table; process id of the holder, 0 for a prepared transaction; how many
--   wait for it; process id of one that does; longest wait in microseconds; holder's application,
--   user, state and last statement.
-- Concurrency: a plain read of pg_locks; the server makes others wait for a moment while it finds
--   out who blocks, so it is asked only about sessions that have waited for long.
-- A session that waits for a row waits for a transaction, and holds a lock on the row's address.
-- Before version 14 pg_locks has no waitstart; then the statement's begin stands for it.
with ours as materialized (
    select c.oid, c.relname
    from pg_class c
    where c.relnamespace = to_regnamespace($1::text)::oid
), waiting as materialized (
    select
        w.pid,
        coalesce((to_jsonb(w) ->> 'waitstart')::timestamptz, a.query_start) as since,
        (
            select o.relname
            from pg_locks l
            join ours o on o.oid = l.relation
            where l.pid = w.pid and l.database = (select oid from pg_database where datname = current_database())
            order by l.granted, (l.locktype = 'tuple') desc, (l.mode <> 'AccessShareLock') desc
            limit 1
        ) as relname
    from pg_locks w
    left join pg_stat_activity a on a.pid = w.pid
    where not w.granted
), blocked as materialized (
    select w.pid, w.since, w.relname, b.holder
    from waiting w
    cross join lateral unnest(pg_blocking_pids(w.pid)) as b (holder)
    where w.relname is not null and coalesce(w.since < (clock_timestamp() - interval '2 seconds'), true)
)
select
    'lock',
    min(b.relname)::text,
    b.holder::bigint,
    count(distinct b.pid),
    min(b.pid)::bigint,
    coalesce(date_part('epoch', clock_timestamp() - min(b.since)) * 1000000, 0),
    coalesce(min(format('%s, user %s%s, %s: %s', coalesce(nullif(a.application_name, ''), 'no application name'), a.usename, coalesce(' at ' || host(a.client_addr), ''), a.state, left(a.query, 200))), '')
from blocked b
left join pg_stat_activity a on a.pid = b.holder
where not exists (select from blocked w where w.pid = b.holder)
group by b.holder
order by count(distinct b.pid) desc
limit 20
