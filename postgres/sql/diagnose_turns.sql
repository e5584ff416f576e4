-- Purpose: find sessions that have held an advisory lock for over 30 seconds: processes take turns
--   by such locks.
-- Parameters: none.
-- Columns out: 'turn'; ''; process id of the holder; key of the lock; 0; for how long in
--   microseconds; holder's application, user, state and last statement.
-- Concurrency: a plain read of pg_locks. Every role of the database may take an advisory lock, so
--   the holder may have nothing to do with dibs.
select
    'turn',
    '',
    l.pid::bigint,
    (l.classid::bigint << 32) | l.objid::bigint,
    0::bigint,
    date_part('epoch', clock_timestamp() - coalesce(a.xact_start, a.state_change)) * 1000000,
    format('%s, user %s%s, %s: %s', coalesce(nullif(a.application_name, ''), 'no application name'), a.usename, coalesce(' at ' || host(a.client_addr), ''), a.state, left(a.query, 200))
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory'
    and l.objsubid = 1
    and l.granted
    and l.database = (select oid from pg_database where datname = current_database())
    and coalesce(a.xact_start, a.state_change) < (clock_timestamp() - interval '30 seconds')
order by coalesce(a.xact_start, a.state_change)
limit 100
