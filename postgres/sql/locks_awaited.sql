-- Purpose: find the lock of one connection for which another connection waits.
-- Parameters: $1 process id of the waiting connection, $2 of the one that holds the lock.
-- Columns out: kind, table or '', key of an advisory lock or 0; no row if it does not wait.
-- Concurrency: a plain read of pg_locks, as locks_held.sql.
-- A connection that waits for a row waits for the end of its holder's transaction, and
--   meanwhile holds a lock on the row's address, which tells the table.
select
    w.locktype,
    coalesce(t.relname, ''),
    coalesce(w.classid::bigint << 32 | w.objid::bigint, 0)
from pg_locks w
left join pg_locks p on p.pid = w.pid and p.locktype = 'tuple' and p.granted
left join pg_class t on t.oid = coalesce(p.relation, w.relation)
where w.pid = $1 and not w.granted and $2 = any (pg_blocking_pids($1))
limit 1
