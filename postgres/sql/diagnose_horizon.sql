-- Purpose: find what keeps vacuum from removing dead rows, or old log files, besides sessions.
-- Parameters: none.
-- Columns out: name of the finding; its name; process id or 0; how many transactions began since
--   what it needs; bytes of the log that it keeps; age in microseconds; detail.
--   slot: a replication slot that nobody reads, or that holds back much; detail active or not
--   prepared: a prepared transaction of this database that is over a minute old; detail its owner
--   standby: a standby whose queries hold back vacuum
-- Concurrency: a plain read of the catalogs; locks nothing.
select
    'slot',
    s.slot_name::text,
    coalesce(s.active_pid, 0)::bigint,
    coalesce(age(s.xmin), 0)::bigint,
    coalesce(case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) end, 0)::bigint,
    0::double precision,
    case when s.active then 'active' else 'inactive' end
from pg_replication_slots s
where not s.active
    or coalesce(age(s.xmin), 0) > 1000000
    or case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) > 10737418240 end
union all
select 'prepared', p.gid, 0, age(p.transaction), 0, date_part('epoch', clock_timestamp() - p.prepared) * 1000000, p.owner::text
from pg_prepared_xacts p
where p.database = current_database() and p.prepared < (clock_timestamp() - interval '1 minute')
union all
select 'standby', r.application_name, r.pid, age(r.backend_xmin), 0, 0, coalesce(host(r.client_addr), '')
from pg_stat_replication r
where age(r.backend_xmin) > 1000000
