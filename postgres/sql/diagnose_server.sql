-- Purpose: find settings and states of the server that hurt.
-- Parameters: $1 the table of jobs, as it is written in SQL.
-- Columns out: name of the finding; setting, database or role; 0; two counts; age in
--   microseconds; value.
--   now: microseconds since 1970 by the server's clock, always
--   setting: a setting of the server or of this role that hurts
--   role_setting: one of another role that may work here; detail the setting and its value
--   connections: how many are in use, of how many
--   wraparound: transactions until now, and when autovacuum begins to force itself
--   recovery: the server is a standby
--   archiver: log files are not archived, since when; how often it has failed
-- Concurrency: a plain read of statistics and settings; locks nothing.
-- A session's own settings are not those of others: reset_val is what it began with.
select 'now', '', 0::bigint, (date_part('epoch', clock_timestamp()) * 1000000)::bigint, 0::bigint, 0::double precision, ''
union all
select 'setting', s.name, 0, case when s.reset_val ~ '^[0-9]{1,18}$' then s.reset_val::bigint else 0 end, 0, 0, s.reset_val
from pg_settings s
where (s.name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts') and s.reset_val = 'off')
    or (s.name in ('statement_timeout', 'transaction_timeout') and s.reset_val::bigint > 0 and s.reset_val::bigint <= 30000)
    or (s.name = 'default_transaction_read_only' and s.reset_val = 'on')
    or (s.name = 'shared_buffers' and s.reset_val::bigint < 8192)
union all
select 'role_setting', coalesce(r.rolname, 'any role')::text, 0, 0, 0, 0, c.setting
from pg_db_role_setting d
cross join lateral unnest(d.setconfig) as c (setting)
left join pg_roles r on r.oid = d.setrole
where (d.setdatabase = 0 or d.setdatabase = (select oid from pg_database where datname = current_database()))
    and coalesce(r.rolname <> session_user, true)
    and c.setting ~ '^(statement_timeout|transaction_timeout|synchronous_commit|default_transaction_read_only)='
    and not (c.setting ~ '=(0|on|off|remote_apply|remote_write|local)$' and not (c.setting in ('synchronous_commit=off', 'default_transaction_read_only=on')))
    and (r.oid is null or has_table_privilege(r.oid, to_regclass($1::text)::oid, 'update'))
union all
select 'connections', '', 0, u.used, u.most, 0, ''
from (
    select
        coalesce(sum(numbackends), 0)::bigint as used,
        (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int)::bigint as most
    from pg_stat_database
) u
where (u.used * 5) >= (u.most * 4)
union all
(
    select 'wraparound', d.datname::text, 0, greatest(age(d.datfrozenxid), mxid_age(d.datminmxid))::bigint, current_setting('autovacuum_freeze_max_age')::bigint, 0, ''
    from pg_database d
    where greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) > greatest((2 * current_setting('autovacuum_freeze_max_age')::bigint), 500000000)
    order by 4 desc
    limit 1
)
union all
select 'recovery', '', 0, 0, 0, 0, ''
where pg_is_in_recovery()
union all
select 'archiver', coalesce(a.last_failed_wal, ''), 0, a.failed_count, 0, coalesce(date_part('epoch', clock_timestamp() - a.last_archived_time) * 1000000, 0), ''
from pg_stat_archiver a
where a.last_failed_time > coalesce(a.last_archived_time, '-infinity')
