-- Purpose: tell for which lock of one connection another one waits.
-- Parameters: $1 process id of who waits, $2 of who holds the lock.
-- Columns out: kind, table or '', key of an advisory lock or 0; no row if it does not wait.
-- Concurrency: a plain read; of pg_locks, as locks_held.sql.
-- Who waits for a row waits for its holder's transaction, and holds the row's place
--   in the line meanwhile, which tells the table.
select
    w.locktype,
    coalesce(t.relname, ''),
    coalesce(w.classid::bigint << 32 | w.objid::bigint, 0)
from pg_locks w
left join pg_locks p on p.pid = w.pid and p.locktype = 'tuple' and p.granted
left join pg_class t on t.oid = coalesce(p.relation, w.relation)
where w.pid = $1 and not w.granted and $2 = any (pg_blocking_pids($1))
limit 1
