-- Purpose: find transactions that are open for long, and those that hold up others.
-- Parameters: none.
-- Columns out: name of the finding; user and client, or a table; id of the connection, 0 of a prepared transaction; a
--   count; id of another connection; age in microseconds; last statement. The names:
--   idle_transaction: one that has done nothing for over a minute: for how many seconds; how many rows it has locked
--   long_transaction: one that is open for over five minutes, and at work; how many rows it has locked
--   prepared_transaction: one that was prepared over a minute ago, and belongs to no connection
--   lock: one that holds up others at a row of a table for over two seconds: how many, and one of them
--   table_lock: sessions that wait for the lock of a table for over two seconds, as for alter table: how many, and one of
--     them
-- Concurrency: a plain read of what the server shows of transactions; locks nothing. It needs the privilege PROCESS: without
--   it the server refuses the transactions, and shows the user's own connections only.
-- Times of transactions are in the time zone of the server.
with trx as (
  select
    t.trx_id,
    t.trx_mysql_thread_id as thread,
    timestampdiff(microsecond, t.trx_started, convert_tz(utc_timestamp(6), '+00:00', 'SYSTEM')) as age,
    timestampdiff(microsecond, t.trx_wait_started, convert_tz(utc_timestamp(6), '+00:00', 'SYSTEM')) as waits,
    t.trx_rows_locked as locked,
    coalesce(concat(p.user, '@', p.host), '') as who,
    case when p.command = 'Sleep' then p.time_ms end as idle_ms,
    coalesce(nullif(left(coalesce(p.info, t.trx_query), 200), ''), '') as query,
    p.db
  from information_schema.innodb_trx t
  left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
  where t.trx_mysql_thread_id <> connection_id()
), lock_wait as (
  select
    b.thread as holder,
    b.who,
    b.query,
    min(w.thread) as waiter,
    count(distinct w.thread) as n,
    max(w.waits) as age,
    min(k.lock_table) as table_name
  from information_schema.innodb_lock_waits i
  join trx w on w.trx_id = i.requesting_trx_id
  join trx b on b.trx_id = i.blocking_trx_id
  join information_schema.innodb_locks k on k.lock_id = i.requested_lock_id
  where w.waits > 2000000 and k.lock_table regexp concat('^`', database(), '`')
    and not exists (select 1 from information_schema.innodb_lock_waits o where o.requesting_trx_id = i.blocking_trx_id)
  group by b.thread, b.who, b.query
)
select 'idle_transaction', t.who, t.thread, t.idle_ms div 1000, t.locked, t.age, t.query
from trx t
where t.idle_ms > 60000 and (t.db = database() or t.db is null)
union all
select 'long_transaction', t.who, t.thread, 0, t.locked, t.age, t.query
from trx t
where t.thread <> 0 and t.idle_ms is null and t.age > 300000000 and (t.db = database() or t.db is null)
union all
select 'prepared_transaction', '', 0, 0, t.locked, t.age, ''
from trx t
where t.thread = 0 and t.age > 60000000
union all
select 'lock', l.table_name, l.holder, l.n, l.waiter, l.age, concat(l.who, ': ', l.query)
from lock_wait l
union all
select 'table_lock', '', 0, count(*), min(p.id), convert(max(p.time_ms) * 1000, signed), left(coalesce(min(p.info), ''), 200)
from information_schema.processlist p
where p.db = database() and p.state regexp '^Waiting for .*lock' and p.time_ms > 2000
having count(*) > 0
