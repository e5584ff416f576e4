-- Purpose: find transactions that hold rows which workers pass over: nobody waits for them, so no
--   view of waiting sessions shows them.
-- Parameters: none.
-- Columns out: name of the finding; schedule or table; process id of the holder, 0 for a prepared
--   transaction; 0; 0; how long its transaction is open in microseconds, 0 if the role may not see that;
--   holder's application, user and state, and in the next line its last statement. The names:
--   schedule_lock: the row of a schedule whose tick is over a minute late is locked
--   row_lock: a transaction open for over a minute has locked or changed rows of a table
-- Concurrency: a plain read of pg_locks and of a few rows; locks nothing. Whoever locks a row writes its
--   transaction's number into xmax, and holds a lock on that number and on the table until it
--   ends. Several holders of one row have one number together, and are only found by the table.
with holder as materialized (
    select
        l.locktype,
        l.relation,
        l.transactionid,
        l.mode,
        coalesce(l.pid, 0)::bigint as pid,
        a.xact_start,
        coalesce(format('%s, user %s%s, %s%s%s', coalesce(nullif(a.application_name, ''), 'no application name'), a.usename, coalesce(' at ' || host(a.client_addr), ''), a.state, chr(10), left(a.query, 200)), '') as detail
    from pg_locks l
    left join pg_stat_activity a on a.pid = l.pid
    where l.granted and (l.pid is null or l.pid <> pg_backend_pid())
        and (l.locktype = 'transactionid' and l.mode = 'ExclusiveLock'
            or l.locktype = 'relation' and l.mode in ('RowShareLock', 'RowExclusiveLock') and l.database = (select oid from pg_database where datname = current_database()))
)
select 'schedule_lock', s.name, h.pid, 0::bigint, 0::bigint, coalesce(date_part('epoch', clock_timestamp() - h.xact_start) * 1000000, 0), h.detail
from dibs.schedule s
join holder h on h.locktype = 'transactionid' and h.transactionid = s.xmax
where s.next_at < (statement_timestamp() - interval '1 minute')
union all
select 'row_lock', t.name, h.pid, 0, 0, date_part('epoch', clock_timestamp() - h.xact_start) * 1000000, h.detail
from (values ('schedule', 'dibs.schedule'::regclass), ('job', 'dibs.job'::regclass), ('claim', 'dibs.claim'::regclass), ('turn', 'dibs.turn'::regclass)) as t (name, relation)
join holder h on h.locktype = 'relation' and h.relation = t.relation::oid
where h.xact_start < (clock_timestamp() - interval '1 minute')
order by 6 desc
limit 100
