-- Purpose: list the locks that a connection's transaction holds, except those on rows.
-- Parameters: $1 process id of the connection.
-- Columns out: kind ('table', 'sequence', or what pg_locks calls it), name of the table
--   or sequence (an index counts as its table), the strongest mode, key of an advisory lock.
-- Concurrency: a plain read of pg_locks, which stops the server's locking for microseconds.
select
    case when l.locktype <> 'relation' then l.locktype when t.relkind = 'S' then 'sequence' else 'table' end,
    coalesce(t.relname, ''),
    (array_agg(l.mode order by array_position(array['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock',
        'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], l.mode) desc))[1],
    coalesce(l.classid::bigint << 32 | l.objid::bigint, 0)
from pg_locks l
left join pg_index i on i.indexrelid = l.relation
left join pg_class t on t.oid = coalesce(i.indrelid, l.relation)
where l.pid = $1 and l.granted and l.locktype <> 'virtualxid'
group by 1, 2, 4
order by 1 desc, 2, 4
